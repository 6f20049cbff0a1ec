// The plans a job may run on a given set of GPUs, and the best of them. Uniform layers; the full plan solver is wider.
#pragma once

#include <optional>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier {

// `gpus` in the order a plan of `job` should use them: the anchor's first GPU leads (rank 0 stays there for the whole
// job), nodes follow in the order of the present plan and then of `gpus`, GPUs of one node stand together, those of
// the present plan first. Few stage boundaries cross nodes and most layers stay where they are.
std::vector<GpuId> plan_order(const ElasticJob& job, const std::vector<GpuId>& gpus);

// Largest number of layers on one GPU that the job is known to bear: what its present plan has (there is no memory
// model yet, so no plan is chosen that piles more on a GPU unless fewer GPUs leave no choice).
int largest_stage(const Plan& plan);

// `gpus` without those that cannot be part of a whole tensor-parallel group of the job's degree on one node.
std::vector<GpuId> whole_groups(const ElasticJob& job, const std::vector<GpuId>& gpus);

// The fastest plan of `job` on exactly all of `gpus` (already in plan_order). accuracy=bitwise keeps DP, shares and TP
// of the present plan and changes the pipeline degree only; relaxed also chooses the DP degree. nullopt: none fits.
std::optional<Plan> best_plan_on_all(const ElasticJob& job, const std::vector<GpuId>& gpus, int layers_per_stage_limit);

}  // namespace espalier
