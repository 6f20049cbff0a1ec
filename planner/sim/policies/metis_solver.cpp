#include "planner/sim/policies/metis_solver.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "planner/core/solver/from_scratch.hpp"
#include "planner/core/solver/seeds.hpp"

namespace espalier::sim {

double metis_seconds(int gpus) {
  struct Measured {
    double gpus, seconds;
  };
  constexpr std::array<Measured, 4> kMeasured{{{8, 0.13}, {16, 2.4}, {32, 19}, {64, 75}}};
  std::size_t upper = 1;
  while (upper + 1 < kMeasured.size() && gpus > kMeasured[upper].gpus) ++upper;
  const Measured &a = kMeasured[upper - 1], &b = kMeasured[upper];
  const double slope = std::log(b.seconds / a.seconds) / std::log(b.gpus / a.gpus);
  return a.seconds * std::pow(gpus / a.gpus, slope);
}

double parallel_seconds(double longest, double all, int cores) { return std::max(longest, all / cores); }

std::vector<PrefixPlan> MetisSolver::solve(Evaluator& evaluator, const WorkingPlan& present,
                                           std::span<const Piece> units, std::vector<PrefixPlan> known) {
  std::vector<PrefixPlan> plans = std::move(known);
  if (plans.empty()) plans.push_back({0, present});
  std::vector<Piece> gpus;
  for (const StageSketch& stage : present.sketch.stages) gpus = merge_pieces(gpus, stage.pieces);
  for (std::size_t i = 0; i < units.size(); ++i) {
    gpus = merge_pieces(gpus, units.subspan(i, 1));
    if (i + 1 < plans.size()) continue;
    PrefixPlan& next = plans.emplace_back(PrefixPlan{plans.back().gpus + units[i].gpus, {}});
    const double seconds = metis_seconds(count_gpus(gpus));
    longest_ = std::max(longest_, std::min(seconds, options_.budget_seconds));
    all_ += std::min(seconds, options_.budget_seconds);
    if (seconds > options_.budget_seconds) continue;
    // Near-symmetric plans come first. Slower plans then need not be looked at.
    const auto seeds = symmetric_seeds(evaluator, gpus, 1);
    const auto found =
        plan_from_scratch(evaluator, gpus, {options_.labels, {}}, seeds.empty() ? kInfeasible : seeds.front().ms);
    if (found.best) next.plan = working_plan(evaluator, found.best->sketch, true);
    else if (!seeds.empty()) next.plan = seeds.front();
  }
  return plans;
}

double MetisSolver::take_seconds() {
  const double seconds = parallel_seconds(longest_, all_, options_.cores);
  longest_ = all_ = 0;
  return seconds;
}

}  // namespace espalier::sim
