// Near-symmetric plans from which a search starts: one TP degree, groups dealt to the stages as
// evenly as possible.
#pragma once

#include <span>
#include <vector>

#include "planner/core/solver/working_plan.hpp"

namespace espalier {

// The `count` fastest feasible tilings of `available` (sorted pieces) that take less than `bound` ms, fastest first.
std::vector<WorkingPlan> symmetric_seeds(Evaluator& evaluator, std::span<const Piece> available, int count,
                                         double bound = kInfeasible);

}  // namespace espalier
