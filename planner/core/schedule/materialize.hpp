// From counts to GPUs: which of a node's GPUs serve which stage, so that as little state as possible has to move.
#pragma once

#include <optional>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/solver/sketch.hpp"
#include "planner/core/topology/affinity_order.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// The plan of `sketch` on GPUs of `available` (sorted by node, as held_gpus gives them, with what is to be added).
// A GPU goes where the layers that it holds under the job's present plan go, as far as possible; GPUs of one TP group
// are neighbours. Rank 0 is the anchor's first GPU when the first stage is on its node. Shares are balanced.
// nullopt: a node has fewer GPUs than the sketch wants.
std::optional<Plan> materialize(const Problem& problem, const PlanSketch& sketch, const ElasticJob& job,
                                const std::vector<NodeGpus>& available);

}  // namespace espalier
