// The mirror of Algorithm 1: the best plan on what remains when GPUs are taken away.
#pragma once

#include <optional>
#include <span>

#include "planner/core/solver/best_plan.hpp"
#include "planner/core/solver/working_plan.hpp"

namespace espalier {

// `present` without what is not in `kept` (sorted pieces): lost replicas are deleted, stages that lose all of them
// dropped, stages whose TP degree no longer fits regrouped, everything balanced anew; that plan competes with what
// best_plan() finds on `kept`. nullopt: nothing valid fits.
std::optional<WorkingPlan> shrink_plan(Evaluator& evaluator, const PlanSketch& present, std::span<const Piece> kept,
                                       const SearchEffort& effort);

}  // namespace espalier
