#include "tests/bench/planner/incremental_plan.hpp"

#include <algorithm>
#include <tuple>

#include "planner/core/error.hpp"

namespace espalier::bench {

std::vector<Piece> with_units(std::vector<Piece> held, std::span<const Piece> units) {
  for (const Piece& unit : units) held = merge_pieces(held, std::span(&unit, 1));
  return held;
}

Solution incremental_plan(Evaluator& evaluator, const PlanSketch& present, std::span<const Piece> held,
                          std::span<const Piece> units) {
  std::vector<PlanSketch> starts{present};
  for (const PrefixPlan& prefix : expand_prefixes(evaluator, working_plan(evaluator, present, true), units, {}))
    if (prefix.plan.feasible()) starts.push_back(prefix.plan.sketch);
  const auto all = with_units({held.begin(), held.end()}, units);
  const auto best = best_plan(evaluator, all, starts, {});
  ESPALIER_INVARIANT(best.has_value());
  return *best;
}

double printed_algorithm1(Evaluator& evaluator, const PlanSketch& present, std::span<const Piece> units) {
  double ms = kInfeasible;
  for (const PrefixPlan& prefix :
       expand_prefixes(evaluator, working_plan(evaluator, present, true), units, ExpandOptions::as_printed()))
    if (prefix.plan.feasible()) ms = std::min(ms, prefix.plan.ms);
  return ms;
}

}  // namespace espalier::bench
