// A plan for a set of GPUs with no regard to the present one: the part that Metis plays in the paper (§2.3, §5.3), over
// the same plans and the same model as the incremental solver. For tests and baselines, and where there is no plan.
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
  bool complete = false;  // no plan at all is faster
  long labels = 0;
};

// Pareto searches over ever smaller units of GPUs, compact stages first, each with what the one before found as its
// incumbent; the last one, if the work suffices, goes through all plans. Plans at or above `incumbent_ms` are not
// looked for. Deterministic without `stop`.
FromScratchResult plan_from_scratch(Evaluator& evaluator, std::span<const Piece> available,
                                    const FromScratchLimits& limits, double incumbent_ms = kInfeasible);

}  // namespace espalier
