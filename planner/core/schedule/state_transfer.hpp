// What moving a job's state costs, before anything was measured.
#pragma once

#include <vector>

#include "planner/core/solver/evaluator.hpp"
#include "planner/core/topology/affinity_order.hpp"

namespace espalier {

// Seconds in which `next` can have its state on nodes where the job holds nothing yet, over their rails at half their
// bandwidth; what nodes have already is not counted. A hand-off pauses for at least about that long.
double transfer_seconds(const Problem& problem, const PlanSketch& next, const std::vector<NodeGpus>& held);

}  // namespace espalier
