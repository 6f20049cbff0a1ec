// Cost of moving a job's state, before anything was measured.
#pragma once

#include <vector>

#include "planner/core/plan.hpp"
#include "planner/core/solver/evaluator.hpp"
#include "planner/core/topology/affinity_order.hpp"

namespace espalier {

// Seconds to move the state of `next` to nodes where the job holds no GPU yet, over their rails at
// half their bandwidth: as the job's coefficients have it, less for every switch level up to the
// closest node that the job holds. State that stays on a node is not counted. A hand-off pauses training for
// at least about this time.
double transfer_seconds(const Problem& problem, const PlanSketch& next, const std::vector<NodeGpus>& held);

// Seconds to move the state that each GPU of `to` does not hold on `from`, e.g. because its chunks are others: from
// another GPU of its node where one has it, else over its node's rails, both at half their bandwidth. Both plans are of
// one model. Where a GPU's TP degree changes, all of its state counts as moved.
double transfer_seconds(const Problem& problem, const Plan& from, const Plan& to);

}  // namespace espalier
