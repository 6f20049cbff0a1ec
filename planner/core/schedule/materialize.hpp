// Turns counts into GPUs: decides which of a node's GPUs serve which stage. As little state as
// possible has to move.
#pragma once

#include <optional>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/solver/sketch.hpp"
#include "planner/core/topology/affinity_order.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// Returns the plan of `sketch` on GPUs of `available`. `available` is sorted by node, as
// held_gpus() gives it, and includes the GPUs to be added. If possible, a GPU gets a stage whose
// layers it holds under the job's present plan. GPUs of one TP group are neighbours. Rank 0 is the
// anchor's first GPU if the first stage is on its node. The other ranks of a data-parallel program are
// in the order of shard_order.hpp. Shares are balanced. nullopt: a node has
// fewer GPUs than the sketch needs.
std::optional<Plan> materialize(const Problem& problem, const PlanSketch& sketch, const ElasticJob& job,
                                const std::vector<NodeGpus>& available);

}  // namespace espalier
