// Plans a set of GPUs without regard to the present plan. This is the part that Metis plays in the
// paper (§2.3, §5.3), over the same plans and the same model as the incremental solver. Used by
// tests and baselines, and by best_plan().
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "planner/core/solver/pareto.hpp"

namespace espalier {

struct FromScratchLimits {
  long max_labels = 1'000'000;  // as ParetoLimits
  std::function<bool()> stop;   // as ParetoLimits
};

struct FromScratchResult {
  std::optional<Solution> best;
  bool complete = false;  // no other plan is faster
  long labels = 0;
};

// Runs Pareto searches over ever smaller units of GPUs, compact stages first. The result of each
// search is the incumbent of the next one. The last search goes through all plans if the work limit
// suffices. Plans at or above `incumbent_ms` are not searched for. Deterministic without `stop`.
FromScratchResult plan_from_scratch(Evaluator& evaluator, std::span<const Piece> available,
                                    const FromScratchLimits& limits, double incumbent_ms = kInfeasible);

}  // namespace espalier
