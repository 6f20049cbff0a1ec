#include "planner/core/shapes.hpp"

#include <algorithm>
#include <map>

#include "planner/core/pipeline_time.hpp"

namespace espalier {
namespace {

// Evenly, the remainder to the first ones.
int even_part(int total, int parts, int index) { return total / parts + (index < total % parts ? 1 : 0); }

// TP groups: runs of `tp` GPUs of one node. Fewer GPUs than a run are left out.
std::vector<std::vector<GpuId>> tensor_groups(const std::vector<GpuId>& gpus, int tp) {
  std::vector<std::vector<GpuId>> groups;
  for (std::size_t i = 0; i + static_cast<std::size_t>(tp) <= gpus.size();) {
    const auto last = i + static_cast<std::size_t>(tp) - 1;
    if (gpus[i].node == gpus[last].node) {
      groups.emplace_back(gpus.begin() + static_cast<std::ptrdiff_t>(i),
                          gpus.begin() + static_cast<std::ptrdiff_t>(last) + 1);
      i = last + 1;
    } else {
      ++i;
    }
  }
  return groups;
}

Plan build(const ElasticJob& job, int pp, const std::vector<int>& shares,
           const std::vector<std::vector<GpuId>>& groups) {
  Plan plan{job.plan->global_batch, job.plan->micro_batches, {}};
  std::size_t next = 0;
  for (int s = 0; s < pp; ++s) {
    Stage stage{even_part(job.model.layers, pp, s), static_cast<int>(groups.front().size()), {}};
    for (const int share : shares) stage.replicas.push_back({share, groups[next++]});
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

std::vector<int> even_shares(int micro_batch, int dp) {
  std::vector<int> shares;
  for (int r = 0; r < dp; ++r) shares.push_back(even_part(micro_batch, dp, r));
  return shares;
}

// The shares of the present plan when all of its stages have the same: only then the pipeline degree can change alone.
std::vector<int> present_shares(const Plan& plan) {
  std::vector<int> shares;
  for (const Replica& replica : plan.stages.front().replicas) shares.push_back(replica.share);
  for (const Stage& stage : plan.stages) {
    if (stage.tp != plan.stages.front().tp || stage.replicas.size() != shares.size()) return {};
    for (std::size_t r = 0; r < shares.size(); ++r)
      if (stage.replicas[r].share != shares[r]) return {};
  }
  return shares;
}

}  // namespace

std::vector<GpuId> plan_order(const ElasticJob& job, const std::vector<GpuId>& gpus) {
  std::vector<GpuId> wanted;
  if (!job.anchor.empty() && !job.anchor.front().gpus.empty())
    wanted.push_back({job.anchor.front().node, job.anchor.front().gpus.front()});
  if (job.plan)
    for (const GpuId& gpu : job.plan->ranks()) wanted.push_back(gpu);
  wanted.insert(wanted.end(), gpus.begin(), gpus.end());

  std::vector<std::string> nodes;
  std::map<std::string, std::vector<GpuId>> of_node;
  for (const GpuId& gpu : wanted) {
    if (std::find(gpus.begin(), gpus.end(), gpu) == gpus.end()) continue;
    auto& list = of_node[gpu.node];
    if (list.empty()) nodes.push_back(gpu.node);
    if (std::find(list.begin(), list.end(), gpu) == list.end()) list.push_back(gpu);
  }
  std::vector<GpuId> order;
  for (const std::string& node : nodes) order.insert(order.end(), of_node[node].begin(), of_node[node].end());
  return order;
}

int largest_stage(const Plan& plan) {
  int most = 0;
  for (const Stage& stage : plan.stages) most = std::max(most, stage.layers);
  return most;
}

std::vector<GpuId> whole_groups(const ElasticJob& job, const std::vector<GpuId>& gpus) {
  std::vector<GpuId> whole;
  const int tp = job.plan && !job.plan->stages.empty() ? job.plan->stages.front().tp : 1;
  for (const auto& group : tensor_groups(gpus, std::max(1, tp))) whole.insert(whole.end(), group.begin(), group.end());
  return whole;
}

std::optional<Plan> best_plan_on_all(const ElasticJob& job, const std::vector<GpuId>& gpus,
                                     int layers_per_stage_limit) {
  if (!job.plan || job.plan->stages.empty() || job.model.layers <= 0 || gpus.empty()) return std::nullopt;
  const auto groups = tensor_groups(gpus, std::max(1, job.plan->stages.front().tp));
  const int count = static_cast<int>(groups.size());
  if (count == 0 || groups.size() * groups.front().size() != gpus.size()) return std::nullopt;

  std::vector<std::vector<int>> splits;  // shares per stage
  if (job.accuracy == Accuracy::bitwise) {
    splits.push_back(present_shares(*job.plan));
  } else {
    for (int dp = 1; dp <= std::min(count, job.plan->micro_batch()); ++dp)
      splits.push_back(even_shares(job.plan->micro_batch(), dp));
  }
  std::optional<Plan> best;
  for (const auto& shares : splits) {
    const int dp = static_cast<int>(shares.size());
    if (dp == 0 || count % dp != 0) continue;
    const int pp = count / dp;
    if (pp > job.model.layers || even_part(job.model.layers, pp, 0) > layers_per_stage_limit) continue;
    Plan plan = build(job, pp, shares, groups);
    if (!best || relative_step_time(plan) < relative_step_time(*best)) best = std::move(plan);
  }
  return best;
}

}  // namespace espalier
