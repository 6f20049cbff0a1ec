// The reverse of Algorithm 1: the best plan on the remaining GPUs when GPUs are taken away.
#pragma once

#include <optional>
#include <span>

#include "planner/core/solver/best_plan.hpp"
#include "planner/core/solver/working_plan.hpp"

namespace espalier {

// Reduces `present` to the GPUs in `kept` (sorted pieces): lost replicas are deleted, stages
// without replicas are dropped, stages whose TP degree no longer fits are regrouped, and everything
// is balanced anew. That plan competes with the plans that best_plan() finds on `kept`. nullopt:
// nothing valid fits.
std::optional<WorkingPlan> shrink_plan(Evaluator& evaluator, const PlanSketch& present, std::span<const Piece> kept,
                                       const SearchEffort& effort);

}  // namespace espalier
