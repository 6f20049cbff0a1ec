// The plan that the planner makes when a job is offered GPUs. Benchmarks compare it with other
// solvers.
#pragma once

#include <span>

#include "planner/core/solver/algorithm1.hpp"
#include "planner/core/solver/best_plan.hpp"

namespace espalier::bench {

// The pieces of `held` and `units`, sorted.
std::vector<Piece> with_units(std::vector<Piece> held, std::span<const Piece> units);

// bench: what the planner's search can do. daemon: what a decision of espalierd spends on one job.
enum class Effort { bench, daemon };

// Runs Algorithm 1 from `present` over `units` (nearest first), then the planner's own search: from
// all prefixes (bench), or on the GPUs of the fastest prefix, with a decision's bounds of work
// (daemon). The plan may leave GPUs idle. It is never slower than `present`, which must be feasible.
Solution incremental_plan(Evaluator& evaluator, const PlanSketch& present, std::span<const Piece> held,
                          std::span<const Piece> units, Effort effort = Effort::bench);

// Algorithm 1 as printed. Returns the ms of its fastest prefix; the empty prefix counts too.
double printed_algorithm1(Evaluator& evaluator, const PlanSketch& present, std::span<const Piece> units);

}  // namespace espalier::bench
