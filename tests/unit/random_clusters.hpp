// Random clusters with ordinary and elastic jobs, and what holds for every decision on them.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "planner/core/json.hpp"
#include "planner/core/model/model_sizes.hpp"
#include "planner/core/topology/from_view.hpp"
#include "tests/unit/schedule_cases.hpp"

namespace espalier::test {

struct Dice {
  std::mt19937 engine;
  int roll(int low, int high) { return low + static_cast<int>(engine() % static_cast<unsigned>(high - low + 1)); }
};

inline JobCoefficients random_coefficients(Dice& dice, const Site& site) {
  auto result = model_sizes({"gpt2", 8, 512, 8, 256, 1000, 8, 4}, {}, site.hardware.types.size());
  for (GpuCoefficients& gpu : result.gpu)
    gpu = {dice.roll(1, 20) * 0.5, 2, dice.roll(0, 5) * 0.1, dice.roll(1, 4) * 1.0, false, false, false, false};
  result.tp_degrees = {1};
  return result;
}

inline PlanningInput random_input(Dice& dice) {
  std::vector<NodeView> nodes;
  const int count = dice.roll(1, 6);
  for (int i = 0; i < count; ++i)
    nodes.push_back(node("n" + std::to_string(i), dice.roll(1, 8), "leaf" + std::to_string(dice.roll(0, 1)),
                         dice.roll(0, 2) == 0 ? "a100" : "h100"));
  PlanningInput input = input_of(nodes, {});
  JobId next = 100;
  for (NodeView& view : input.cluster.nodes) {
    view.free_cpus = dice.roll(0, 16);
    view.usable = dice.roll(0, 9) != 0;
    for (std::size_t gpu = 0; gpu < view.gpu_owner.size(); ++gpu)
      if (dice.roll(0, 3) == 0) view.gpu_owner[gpu] = next++;  // ordinary jobs
  }
  for (JobId id = 1; id <= 3; ++id) {  // elastic jobs and extensions on the other GPUs
    std::optional<ElasticJob> made;
    for (NodeView& view : input.cluster.nodes) {
      std::vector<int> idle;
      for (std::size_t gpu = 0; gpu < view.gpu_owner.size(); ++gpu)
        if (view.gpu_owner[gpu] == 0) idle.push_back(static_cast<int>(gpu));
      if (idle.empty() || dice.roll(0, 1) == 0) continue;
      idle.resize(static_cast<std::size_t>(dice.roll(1, std::min<int>(2, static_cast<int>(idle.size())))));
      if (!made) {
        made = job(id, view.name, idle, dice.roll(2, 10));
        hold(input.cluster, made->anchor[0]);
      } else if (made->plan->gpu_count() + static_cast<int>(idle.size()) <= std::min(8, made->max_gpus)) {
        extend(*made, next++, view.name, idle);
        hold(input.cluster, made->extensions.back());
      }
    }
    if (!made) continue;
    made->model.global_batch = 8;  // allows replicas
    made->plan = uniform_plan(made->plan->gpu_count(), 1, 8, 8, 4, made->plan->ranks());
    if (dice.roll(0, 1) == 0) made->accuracy = Accuracy::relaxed;
    if (dice.roll(0, 4) == 0) made->model = {"", 8, 0, 0, 0, 0, 8, 4};  // nothing else is known
    input.jobs.push_back(*made);
  }
  input.site = std::make_shared<const Site>(site_from_view(input.cluster, {}).site);
  for (const ElasticJob& one : input.jobs)
    if (dice.roll(0, 1) == 0) input.coefficients[one.id] = random_coefficients(dice, *input.site);
  for (int i = dice.roll(0, 2); i > 0; --i) {
    WaitingJob waiting{next++, dice.roll(1, 6), dice.roll(1, 2), {}, {}, static_cast<double>(dice.roll(0, 2))};
    if (dice.roll(0, 2) == 0) waiting.expected_start = input.now + dice.roll(0, 2000);
    if (dice.roll(0, 3) == 0) waiting.only_nodes = {"n0"};
    input.cluster.waiting.push_back(waiting);
  }
  return input;
}

inline const ElasticJob& job_of(const PlanningInput& input, JobId id) {
  return *std::find_if(input.jobs.begin(), input.jobs.end(), [&](const ElasticJob& j) { return j.id == id; });
}

// Of every decision, whatever the policy.
inline void check(const PlanningInput& input, const std::vector<Decision>& decisions) {
  std::set<JobId> seen;
  std::map<std::string, int> asked, cpus;
  for (const Decision& d : decisions) {
    CAPTURE(d.reason);
    CHECK(seen.insert(d.job).second);
    const ElasticJob& job = job_of(input, d.job);
    CHECK(validate(d.plan, 8).empty());
    CHECK(d.plan.gpu_count() <= job.max_gpus);
    CHECK(d.plan.ranks().front() == GpuId{job.anchor[0].node, job.anchor[0].gpus[0]});
    CHECK(d.plan.global_batch == job.plan->global_batch);
    if (job.accuracy == Accuracy::bitwise) {
      CHECK(d.plan.micro_batches == job.plan->micro_batches);
      for (const Stage& stage : d.plan.stages) CHECK(stage.tp == job.plan->stages[0].tp);
    }
    for (const Stage& stage : d.plan.stages)  // a tensor-parallel group has one type
      for (const Replica& replica : stage.replicas)
        for (const GpuId& gpu : replica.gpus)
          CHECK(input.cluster.find(gpu.node)->gpu_type == input.cluster.find(replica.gpus[0].node)->gpu_type);
    CHECK(std::isfinite(d.predicted_step_seconds));
    CHECK(d.predicted_step_seconds > 0);
    CHECK(d.plan != *job.plan);
    int extra = 0;
    for (const ExtensionRequest& request : d.acquire) extra += request.gpus;
    if (d.kind == DecisionKind::grow) CHECK((extra > 0 && d.release.empty()));
    if (d.kind == DecisionKind::shrink) CHECK((extra == 0 && !d.release.empty()));
    for (const Holding& held : job.extensions)  // an unused extension is given back
      CHECK(std::any_of(held.gpus.begin(), held.gpus.end(), [&](int gpu) {
              const auto ranks = d.plan.ranks();
              return std::find(ranks.begin(), ranks.end(), GpuId{held.node, gpu}) != ranks.end();
            }) == (std::find(d.release.begin(), d.release.end(), held.job) == d.release.end()));
    std::set<std::string> described;
    for (const Candidate& candidate : d.candidates) CHECK(described.insert(candidate.plan).second);
    CHECK(std::count_if(d.candidates.begin(), d.candidates.end(),
                        [](const Candidate& candidate) { return candidate.rejected_by.empty(); }) == 1);
    for (const JobId released : d.release) {
      CHECK(released != job.id);  // never the anchor
      CHECK(std::any_of(job.extensions.begin(), job.extensions.end(),
                        [&](const Holding& held) { return held.job == released; }));
    }
    for (const GpuId& gpu : d.plan.ranks()) {  // an own or an idle GPU, and not a released one
      const JobId owner = input.cluster.find(gpu.node)->gpu_owner[static_cast<std::size_t>(gpu.index)];
      const bool own = owner == job.id || std::any_of(job.extensions.begin(), job.extensions.end(),
                                                      [&](const Holding& held) { return held.job == owner; });
      CHECK((own || (owner == 0 && !d.acquire.empty())));
      CHECK(std::find(d.release.begin(), d.release.end(), owner) == d.release.end());
    }
    for (const ExtensionRequest& request : d.acquire) {
      asked[request.node] += request.gpus;
      cpus[request.node] += request.cpus;
      CHECK(request.lease_minutes >= 1);
      CHECK(request.cpus >= request.gpus);
      CHECK(request.memory_mb > 0);
    }
  }
  for (const auto& [name, gpus] : asked) {
    CHECK(gpus <= input.cluster.find(name)->idle_gpus());
    CHECK(cpus[name] <= input.cluster.find(name)->free_cpus);
  }
}

}  // namespace espalier::test
