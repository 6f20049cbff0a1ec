// A job's plan when it is offered GPUs: what the planner makes of it, for benchmarks that compare it with other
// solvers.
#pragma once

#include <span>

#include "planner/core/solver/algorithm1.hpp"
#include "planner/core/solver/best_plan.hpp"

namespace espalier::bench {

// Sorted pieces of both.
std::vector<Piece> with_units(std::vector<Piece> held, std::span<const Piece> units);

// Algorithm 1 from `present` over `units` (nearest first), then the planner's own search from all of its prefixes.
// Idle GPUs allowed; never slower than `present`, which must be feasible.
Solution incremental_plan(Evaluator& evaluator, const PlanSketch& present, std::span<const Piece> held,
                          std::span<const Piece> units);

// Algorithm 1 as printed: the fastest of its prefixes, the empty one too. ms.
double printed_algorithm1(Evaluator& evaluator, const PlanSketch& present, std::span<const Piece> units);

}  // namespace espalier::bench
