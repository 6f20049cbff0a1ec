// The mirror of growing: the best plan on GPUs that a job keeps.
#include <algorithm>

#include "planner/core/pipeline_time.hpp"
#include "planner/core/scheduler.hpp"
#include "planner/core/shapes.hpp"

namespace espalier {
namespace {

// Fewer GPUs must bear more layers each, but no plan may ask for more than the widest pipeline does.
int unavoidable_layers(const ElasticJob& job, std::size_t gpus) {
  const Stage& stage = job.plan->stages.front();
  const std::size_t replicas = job.accuracy == Accuracy::bitwise ? stage.replicas.size() : 1;
  const int stages = static_cast<int>(gpus / (replicas * static_cast<std::size_t>(std::max(1, stage.tp))));
  return stages > 0 ? (job.model.layers + stages - 1) / stages : job.model.layers;
}

}  // namespace

std::optional<Plan> plan_on_subset(const ElasticJob& job, const std::vector<GpuId>& gpus) {
  if (!job.plan || job.plan->stages.empty() || job.plan->stages.front().replicas.empty()) return std::nullopt;
  if (job.model.layers <= 0) return std::nullopt;
  auto order = whole_groups(job, plan_order(job, gpus));
  const int limit = std::max(largest_stage(*job.plan), unavoidable_layers(job, order.size()));
  std::optional<Plan> best;
  for (; !order.empty(); order.pop_back()) {
    auto plan = best_plan_on_all(job, order, limit);
    if (plan && (!best || relative_step_time(*plan) < relative_step_time(*best))) best = std::move(plan);
  }
  return best;
}

}  // namespace espalier
