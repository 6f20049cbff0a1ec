// The first scheduler: nearest idle GPUs, one more pipeline stage (bitwise) or replica (relaxed) per GPU, uniform
// layers.
#include <algorithm>
#include <cstdio>
#include <set>

#include "planner/core/affinity.hpp"
#include "planner/core/pipeline_time.hpp"
#include "planner/core/scheduler.hpp"
#include "planner/core/shapes.hpp"
#include "planner/core/waiting.hpp"

namespace espalier {
namespace {

// A growth must promise this much, or the pause and the extra GPUs are not worth it.
constexpr double kLeastGain = 1.02;

struct Taken {
  std::string node;
  std::vector<int> gpus;
};

struct Growth {
  std::vector<Candidate> candidates;
  std::vector<std::vector<Taken>> prefixes;  // what each candidate takes
  std::size_t best = 0;
};

int held_gpus(const std::vector<Holding>& holdings) {
  int sum = 0;
  for (const Holding& h : holdings) sum += static_cast<int>(h.gpus.size());
  return sum;
}

std::vector<GpuId> gpus_of(const std::vector<Holding>& holdings) {
  std::vector<GpuId> all;
  for (const Holding& h : holdings)
    for (const int index : h.gpus) all.push_back({h.node, index});
  return all;
}

std::vector<GpuId> all_gpus(const ElasticJob& job) {
  auto all = gpus_of(job.anchor);
  for (const GpuId& gpu : gpus_of(job.extensions)) all.push_back(gpu);
  return all;
}

std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g s", value);
  return text;
}

bool may_grow(const ElasticJob& job, const PlanningInput& input, const SchedulerOptions& options) {
  if (job.phase != JobPhase::running || job.held || !job.plan || job.model.layers <= 0 || job.step_seconds <= 0)
    return false;
  const auto last = input.last_change.find(job.id);
  return last == input.last_change.end() || input.now - last->second >= options.cooldown_seconds;
}

// Extensions of which `plan` uses no GPU go as well: holding them would help nobody. Returns how many GPUs that frees.
int add_unused(const ElasticJob& job, const Plan& plan, std::vector<JobId>& leaving) {
  const auto ranks = plan.ranks();
  int freed = 0;
  for (const Holding& h : job.extensions) {
    const bool used = std::any_of(h.gpus.begin(), h.gpus.end(), [&](int index) {
      return std::find(ranks.begin(), ranks.end(), GpuId{h.node, index}) != ranks.end();
    });
    if (used || std::find(leaving.begin(), leaving.end(), h.job) != leaving.end()) continue;
    leaving.push_back(h.job);
    freed += static_cast<int>(h.gpus.size());
  }
  std::sort(leaving.begin(), leaving.end());
  return freed;
}

// Besides the anchor's nodes, a node carries one extension of a job: ranks of a second one would be children of the
// first, and die of its preemption (launcher/world_command.hpp).
bool is_full(const ElasticJob& job, const std::string& node) {
  const auto on_node = [&node](const Holding& held) { return held.node == node; };
  return std::any_of(job.extensions.begin(), job.extensions.end(), on_node) &&
         std::none_of(job.anchor.begin(), job.anchor.end(), on_node);
}

// CPUs and memory in proportion to GPUs, as if one more GPU shared the node's rest: never all of it.
ExtensionRequest request_for(const Supply& supply, int gpus) {
  const int sharers = static_cast<int>(supply.gpus.size()) + 1;
  const int cpus = std::max(gpus, supply.free_cpus * gpus / sharers);
  return {supply.node->name, gpus, cpus, std::max(1L, supply.free_memory_mb * gpus / sharers), supply.lease_minutes};
}

// GPUs of `supply` that can have a CPU each.
std::size_t grantable(const Supply& supply) {
  if (supply.lease_minutes < 1 || supply.free_memory_mb < 2) return 0;
  return std::min(supply.gpus.size(), static_cast<std::size_t>(std::max(0, supply.free_cpus)));
}

// Growing prefixes of the nearest idle GPUs, each with its best plan.
Growth explore(const ElasticJob& job, const ClusterView& cluster, const std::vector<Supply>& supplies) {
  Growth growth;
  auto gpus = all_gpus(job);
  const int present = held_gpus(job.anchor) + held_gpus(job.extensions);
  const int room = job.max_gpus - present;
  const int limit = largest_stage(*job.plan);
  std::vector<Taken> prefix;
  int extra = 0;
  double fastest = job.step_seconds / kLeastGain;
  growth.best = static_cast<std::size_t>(-1);
  for (const Supply* supply : nearest_first(job, cluster, supplies)) {
    if (is_full(job, supply->node->name)) continue;
    for (std::size_t i = 0; i < grantable(*supply) && extra < room; ++i, ++extra) {
      if (i == 0) prefix.push_back({supply->node->name, {}});
      prefix.back().gpus.push_back(supply->gpus[i]);
      gpus.push_back({supply->node->name, supply->gpus[i]});
      auto plan = best_plan_on_all(job, plan_order(job, gpus), limit);
      if (!plan) continue;  // e.g. more GPUs than layers: nothing to weigh
      Candidate candidate{std::move(*plan), 0, 0, {}};
      candidate.predicted_step_seconds = predict_step_seconds(job.step_seconds, *job.plan, candidate.plan);
      candidate.benefit = marginal_benefit(present, extra + 1, job.step_seconds, candidate.predicted_step_seconds);
      if (candidate.predicted_step_seconds < fastest) {
        fastest = candidate.predicted_step_seconds;
        growth.best = growth.candidates.size();
      }
      growth.candidates.push_back(std::move(candidate));
      growth.prefixes.push_back(prefix);
    }
  }
  return growth;
}

void explain_losers(Growth& growth, const ElasticJob& job) {
  const double winner = growth.candidates[growth.best].predicted_step_seconds;
  for (std::size_t i = 0; i < growth.candidates.size(); ++i) {
    Candidate& c = growth.candidates[i];
    if (i == growth.best) continue;
    if (c.predicted_step_seconds > job.step_seconds / kLeastGain)
      c.rejected_by = "gains less than 2% over the present " + seconds(job.step_seconds) + " per step";
    else if (c.predicted_step_seconds > winner)
      c.rejected_by = "slower than the chosen plan (" + seconds(winner) + " per step)";
    else c.rejected_by = "as fast as the chosen plan, with more GPUs";
  }
}

class Nearest final : public Scheduler {
 public:
  explicit Nearest(const SchedulerOptions& options) : options_(options) {}
  std::string name() const override { return "nearest"; }

  std::vector<Decision> decide(const PlanningInput& input) override {
    WaitingPlan served = serve_waiting(input, options_);
    auto decisions = shrinks(input, served);
    grow_best_first(input, served, decisions);
    std::sort(decisions.begin(), decisions.end(), [](const Decision& a, const Decision& b) { return a.job < b.job; });
    return decisions;
  }

 private:
  Decision decision(const PlanningInput& input, const ElasticJob& job, DecisionKind kind) const {
    Decision d;
    d.time = input.now;
    d.trigger = input.trigger;
    d.kind = kind;
    d.job = job.id;
    return d;
  }

  std::vector<Decision> shrinks(const PlanningInput& input, const WaitingPlan& served) const {
    std::vector<Decision> result;
    for (const ElasticJob& job : input.jobs) {
      const auto found = served.reclaims.find(job.id);
      if (found == served.reclaims.end()) continue;
      auto leaving = found->second.extensions;
      auto kept = gpus_of(job.anchor);
      int given = 0;
      for (const Holding& h : job.extensions) {
        if (std::binary_search(leaving.begin(), leaving.end(), h.job)) given += static_cast<int>(h.gpus.size());
        else
          for (const int index : h.gpus) kept.push_back({h.node, index});
      }
      auto plan = plan_on_subset(job, kept);
      if (!plan) continue;
      given += add_unused(job, *plan, leaving);
      Decision d = decision(input, job, DecisionKind::shrink);
      d.release = leaving;
      d.predicted_step_seconds = predict_step_seconds(job.step_seconds, *job.plan, *plan);
      d.candidates.push_back({*plan, d.predicted_step_seconds, 0, {}});
      d.plan = std::move(*plan);
      d.reason = "job " + std::to_string(found->second.waiting.front()) +
                 (found->second.waiting.size() > 1 ? " and others wait" : " waits") +
                 " for GPUs that extensions hold: give back " + std::to_string(given) + " GPUs, run on " +
                 std::to_string(d.plan.gpu_count());
      result.push_back(std::move(d));
    }
    return result;
  }

  // Rounds: the job with the highest marginal benefit takes its GPUs, the others look again at what is left.
  void grow_best_first(const PlanningInput& input, WaitingPlan& served, std::vector<Decision>& decisions) const {
    std::set<JobId> settled;
    for (const Decision& d : decisions) settled.insert(d.job);
    for (;;) {
      const ElasticJob* winner = nullptr;
      Growth winning;
      for (const ElasticJob& job : input.jobs) {
        if (settled.contains(job.id) || !may_grow(job, input, options_)) continue;
        Growth growth = explore(job, input.cluster, served.supplies);
        if (growth.best >= growth.candidates.size()) {
          settled.insert(job.id);  // less supply later will not help it
          continue;
        }
        const double benefit = growth.candidates[growth.best].benefit;
        if (!winner || benefit > winning.candidates[winning.best].benefit ||
            (benefit == winning.candidates[winning.best].benefit && job.id < winner->id)) {
          winner = &job;
          winning = std::move(growth);
        }
      }
      if (!winner) return;
      settled.insert(winner->id);
      decisions.push_back(grow(input, *winner, std::move(winning), served.supplies));
    }
  }

  Decision grow(const PlanningInput& input, const ElasticJob& job, Growth growth, std::vector<Supply>& supplies) const {
    explain_losers(growth, job);
    const Candidate& chosen = growth.candidates[growth.best];
    Decision d = decision(input, job, DecisionKind::grow);
    d.plan = chosen.plan;
    d.predicted_step_seconds = chosen.predicted_step_seconds;
    int extra = 0;
    for (const Taken& taken : growth.prefixes[growth.best]) {
      const int count = static_cast<int>(taken.gpus.size());
      extra += count;
      for (Supply& supply : supplies) {
        if (supply.node->name != taken.node) continue;
        const ExtensionRequest request = request_for(supply, count);
        supply.gpus.erase(supply.gpus.begin(), supply.gpus.begin() + count);
        supply.free_cpus -= request.cpus;
        supply.free_memory_mb -= request.memory_mb;
        d.acquire.push_back(request);
      }
    }
    d.reason = std::to_string(extra) + " idle GPUs on " + std::to_string(d.acquire.size()) + " node(s): from " +
               seconds(job.step_seconds) + " to a predicted " + seconds(d.predicted_step_seconds) + " per step";
    d.candidates = std::move(growth.candidates);
    return d;
  }

  SchedulerOptions options_;
};

}  // namespace

std::unique_ptr<Scheduler> make_nearest_scheduler(const SchedulerOptions& options) {
  return std::make_unique<Nearest>(options);
}

}  // namespace espalier
