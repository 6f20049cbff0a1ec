// The best plan on a set of GPUs, by dynamic programming over stages from last to first. Not in the
// paper. A complete run is exact for the printed iteration time. A run that is stopped returns the
// best plan found so far.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "planner/core/solver/evaluator.hpp"
#include "planner/core/solver/solution.hpp"

namespace espalier {

struct ParetoLimits {
  // Limit of the work, in labels (partial plans). Looking at a few dozen ways to take a stage costs
  // as much as one label.
  long max_labels = 1'000'000;
  // GPUs are taken from a node this many at a time. The remainder of a node goes as one. 1: single
  // GPUs.
  int unit = 1;
  // A stage may take part of at most one node, and part of at most one leaf switch. This leaves far
  // fewer plans, and seldom worse ones.
  bool compact = false;
  // Called now and then; true ends the search. For callers that have a clock. With it, results
  // depend on the machine.
  std::function<bool()> stop;
};

struct ParetoResult {
  std::optional<Solution> best;  // faster than the incumbent, or nothing
  // No plan within the limits is faster by 1e-9 than `best`, or than the incumbent without `best`.
  bool complete = false;
  long labels = 0;  // work done, in units of ParetoLimits::max_labels
};

// `available`: sorted pieces; the plan may leave GPUs idle. Searches only for plans faster than
// `incumbent_ms` (printed form). A good incumbent saves most of the work. Deterministic without
// `stop`.
ParetoResult pareto_search(Evaluator& evaluator, std::span<const Piece> available, const ParetoLimits& limits,
                           double incumbent_ms = kInfeasible);

}  // namespace espalier
