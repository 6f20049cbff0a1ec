#include "planner/core/growth.hpp"

#include <algorithm>
#include <cstdio>

#include "planner/core/pipeline_time.hpp"
#include "planner/core/shapes.hpp"

namespace espalier {
namespace {

// A growth must promise this much, or the pause and the extra GPUs are not worth it.
constexpr double kLeastGain = 1.02;
constexpr std::size_t kKeptCandidates = 32;

// Besides the anchor's nodes, a node carries one extension of a job: ranks of a second one would be children of the
// first, and die of its preemption (launcher/world_command.hpp).
bool is_full(const ElasticJob& job, const std::string& node) {
  const auto on_node = [&node](const Holding& held) { return held.node == node; };
  return std::any_of(job.extensions.begin(), job.extensions.end(), on_node) &&
         std::none_of(job.anchor.begin(), job.anchor.end(), on_node);
}

// GPUs of `supply` that can have a CPU each.
std::size_t grantable(const Supply& supply) {
  if (supply.lease_minutes < 1 || supply.free_memory_mb < 2) return 0;
  return std::min(supply.gpus.size(), static_cast<std::size_t>(std::max(0, supply.free_cpus)));
}

void explain_losers(Growth& growth, const ElasticJob& job) {
  const double winner = growth.candidates[growth.best].predicted_step_seconds;
  for (std::size_t i = 0; i < growth.candidates.size(); ++i) {
    Candidate& c = growth.candidates[i];
    if (i == growth.best) continue;
    if (c.predicted_step_seconds > job.step_seconds / kLeastGain)
      c.rejected_by = "gains less than 2% over the present " + seconds_text(job.step_seconds) + " per step";
    else if (c.predicted_step_seconds > winner)
      c.rejected_by = "slower than the chosen plan (" + seconds_text(winner) + " per step)";
    else c.rejected_by = "as fast as the chosen plan, with more GPUs";
  }
}

// The record of a wide search stays readable: the chosen one and the best of the others, in the order of their GPUs.
std::vector<Candidate> best_candidates(Growth growth) {
  if (growth.candidates.size() <= kKeptCandidates) return std::move(growth.candidates);
  std::vector<std::size_t> order(growth.candidates.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return growth.candidates[a].predicted_step_seconds < growth.candidates[b].predicted_step_seconds;
  });
  order.resize(kKeptCandidates);  // the chosen one is among the fastest
  std::sort(order.begin(), order.end());
  std::vector<Candidate> kept;
  for (const std::size_t i : order) kept.push_back(std::move(growth.candidates[i]));
  return kept;
}

}  // namespace

int held_gpus(const ElasticJob& job) {
  std::size_t sum = 0;
  for (const auto* holdings : {&job.anchor, &job.extensions})
    for (const Holding& h : *holdings) sum += h.gpus.size();
  return static_cast<int>(sum);
}

std::vector<GpuId> gpus_of(const std::vector<Holding>& holdings) {
  std::vector<GpuId> all;
  for (const Holding& h : holdings)
    for (const int index : h.gpus) all.push_back({h.node, index});
  return all;
}

std::string seconds_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g s", value);
  return text;
}

// As if one more GPU shared the node's rest: never all of it.
ExtensionRequest request_for(const Supply& supply, int gpus) {
  const int sharers = static_cast<int>(supply.gpus.size()) + 1;
  const int cpus = std::max(gpus, supply.free_cpus * gpus / sharers);
  return {supply.node->name, gpus, cpus, std::max(1L, supply.free_memory_mb * gpus / sharers), supply.lease_minutes};
}

Growth explore_growth(const ElasticJob& job, const ClusterView& cluster, const std::vector<Supply>& supplies) {
  Growth growth;
  auto gpus = gpus_of(job.anchor);
  for (const GpuId& gpu : gpus_of(job.extensions)) gpus.push_back(gpu);
  const int present = held_gpus(job);
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

std::vector<Candidate> explained_candidates(Growth growth, const ElasticJob& job) {
  explain_losers(growth, job);
  return best_candidates(std::move(growth));
}

}  // namespace espalier
