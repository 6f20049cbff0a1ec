#include "planner/core/solver/from_scratch.hpp"

#include <algorithm>

namespace espalier {
namespace {

struct Rung {
  int unit;
  bool compact;
};

// The coarsest unit leaves at least 4 units in total and is at most a node of 8 GPUs.
std::vector<Rung> rungs_for(int gpus) {
  int coarsest = 1;
  while (coarsest < 8 && coarsest * 8 <= gpus) coarsest *= 2;
  std::vector<Rung> rungs;
  for (const bool compact : {true, false})
    for (int unit = coarsest; unit >= 1; unit /= 2) rungs.push_back({unit, compact});
  return rungs;
}

}  // namespace

FromScratchResult plan_from_scratch(Evaluator& evaluator, std::span<const Piece> available,
                                    const FromScratchLimits& limits, double incumbent_ms) {
  FromScratchResult result;
  bool stopped = false;
  const std::function<bool()> stop = [&] { return stopped = stopped || (limits.stop && limits.stop()); };
  const auto rungs = rungs_for(count_gpus(available));
  for (std::size_t i = 0; i < rungs.size() && !stopped; ++i) {
    const long left = limits.max_labels - result.labels;
    if (left <= 0) break;
    const bool last = i + 1 == rungs.size();
    const ParetoLimits rung{last ? left : std::max(1L, left / 2), rungs[i].unit, rungs[i].compact, stop};
    ParetoResult found = pareto_search(evaluator, available, rung, incumbent_ms);
    result.labels += found.labels;
    result.complete = last && found.complete;
    if (!found.best) continue;
    incumbent_ms = found.best->ms;
    result.best = std::move(found.best);
  }
  return result;
}

}  // namespace espalier
