#include "planner/core/solver/best_plan.hpp"

#include <algorithm>

#include "planner/core/solver/from_scratch.hpp"
#include "planner/core/solver/local_search.hpp"
#include "planner/core/solver/seeds.hpp"

namespace espalier {

std::optional<Solution> best_plan(Evaluator& evaluator, std::span<const Piece> available,
                                  std::span<const PlanSketch> starts, const SearchEffort& effort) {
  if (evaluator.micro_batch_counts().empty()) return std::nullopt;
  std::vector<WorkingPlan> from;
  for (const PlanSketch& start : starts) {
    for (const bool as_is : {true, false}) {
      WorkingPlan plan = working_plan(evaluator, start, as_is);
      if (plan.feasible() && evaluator.allowed(plan.sketch)) from.push_back(std::move(plan));
    }
  }
  // Without local search a tiling is not improved, so it must beat the other starts as it stands.
  double bound = kInfeasible;
  if (effort.local_steps == 0)
    for (const WorkingPlan& plan : from) bound = std::min(bound, plan.ms);
  for (WorkingPlan& seed : symmetric_seeds(evaluator, available, effort.seeds, bound)) from.push_back(std::move(seed));
  std::stable_sort(from.begin(), from.end(), [](const WorkingPlan& a, const WorkingPlan& b) { return a.ms < b.ms; });
  std::vector<WorkingPlan> finalists;
  for (const WorkingPlan& start : from) {
    if (std::any_of(finalists.begin(), finalists.end(), [&](const WorkingPlan& f) { return f.sketch == start.sketch; }))
      continue;
    finalists.push_back(effort.local_steps > 0
                            ? local_search(evaluator, start, available, effort.local_steps, effort.local_candidates)
                            : start);
    if (finalists.size() >= static_cast<std::size_t>(effort.seeds) + 2) break;
  }
  if (effort.pareto_labels > 0) {
    double incumbent = kInfeasible;
    for (const WorkingPlan& plan : finalists) incumbent = std::min(incumbent, plan.ms);
    auto found = plan_from_scratch(evaluator, available, {effort.pareto_labels, {}}, incumbent);
    if (found.best) finalists.push_back(working_plan(evaluator, std::move(found.best->sketch), true));
  }
  std::erase_if(finalists, [&](const WorkingPlan& plan) { return !evaluator.allowed(plan.sketch); });
  if (finalists.empty()) return std::nullopt;
  const auto best = std::min_element(finalists.begin(), finalists.end(),
                                     [](const WorkingPlan& a, const WorkingPlan& b) { return a.ms < b.ms; });
  return Solution{best->sketch, best->ms};
}

}  // namespace espalier
