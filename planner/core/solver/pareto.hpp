// The best plan on a set of GPUs by dynamic programming over stages from last to first (beyond the paper): exact for
// the printed iteration time when it runs to its end, and the best plan found so far when it does not.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "planner/core/solver/evaluator.hpp"
#include "planner/core/solver/solution.hpp"

namespace espalier {

struct ParetoLimits {
  // Bound of the work, in labels (partial plans); looking at a few dozen ways to take a stage costs as much as one.
  long max_labels = 1'000'000;
  // GPUs are taken from a node this many at a time; the rest of a node goes as one. 1: single GPUs.
  int unit = 1;
  // A stage leaves at most one node in parts, and one leaf switch: far fewer plans, and seldom worse ones.
  bool compact = false;
  // Asked now and then; true ends the search. For callers that have a clock: with it results depend on the machine.
  std::function<bool()> stop;
};

struct ParetoResult {
  std::optional<Solution> best;  // faster than the incumbent, or nothing
  bool complete =
      false;        // nothing is faster than `best`, or than the incumbent, by 1e-9, among plans within the limits
  long labels = 0;  // work, as in ParetoLimits
};

// `available`: sorted pieces; idle ones allowed. Only plans faster than `incumbent_ms` (printed form) are looked for: a
// good incumbent saves most of the work. Deterministic without `stop`.
ParetoResult pareto_search(Evaluator& evaluator, std::span<const Piece> available, const ParetoLimits& limits,
                           double incumbent_ms = kInfeasible);

}  // namespace espalier
