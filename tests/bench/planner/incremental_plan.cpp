#include "tests/bench/planner/incremental_plan.hpp"

#include <algorithm>
#include <tuple>

#include "planner/core/error.hpp"
#include "planner/core/schedule/growing.hpp"

namespace espalier::bench {

std::vector<Piece> with_units(std::vector<Piece> held, std::span<const Piece> units) {
  for (const Piece& unit : units) held = merge_pieces(held, std::span(&unit, 1));
  return held;
}

namespace {

// In rounds, as a job that is alone with the idle GPUs: the fastest prefix, then the fastest of what is left.
Solution as_the_daemon(Evaluator& evaluator, const PlanSketch& present, std::span<const Piece> held,
                       std::span<const Piece> units) {
  ExpandOptions options;
  options.thinned = true;
  WorkingPlan plan = working_plan(evaluator, present, true);
  auto taken = with_units({held.begin(), held.end()}, {});
  for (;;) {
    auto prefixes = expand_prefixes(evaluator, plan, units, options);
    std::size_t fastest = 0;
    for (std::size_t i = 1; i < prefixes.size(); ++i)
      if (prefixes[i].plan.feasible() && prefixes[i].plan.ms < prefixes[fastest].plan.ms) fastest = i;
    if (fastest == 0) break;
    plan = std::move(prefixes[fastest].plan);
    taken = with_units(std::move(taken), units.first(fastest));
    units = units.subspan(fastest);
  }
  const auto best = best_plan(evaluator, taken, std::span(&plan.sketch, 1), kPolishEffort);
  ESPALIER_INVARIANT(best.has_value());
  return *best;
}

}  // namespace

Solution incremental_plan(Evaluator& evaluator, const PlanSketch& present, std::span<const Piece> held,
                          std::span<const Piece> units, Effort effort) {
  if (effort == Effort::daemon) return as_the_daemon(evaluator, present, held, units);
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
