#include "planner/core/schedule/searched_placement.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/model/searched_lists.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/solver/evaluator.hpp"

namespace espalier {
namespace {

constexpr double kLeastGain = 0.02;  // as for lists: the model's own errors are within 2% (RESULTS.md)
// The lists may never run, e.g. where the program cannot take any: the job must lose nothing then.
constexpr double kMostSlower = 1.02;
constexpr std::int64_t kWork = 1'500'000;

bool same_placement(PipelineForm a, PipelineForm b) { return a.chunks == b.chunks && a.v_shaped() == b.v_shaped(); }

int operations(const Plan& plan) {
  return static_cast<int>(std::min<std::int64_t>(
      std::int64_t{3} * static_cast<std::int64_t>(plan.model_chunks().size()) * plan.micro_batches, 1 << 30));
}

// The plan in `form`, with its layers balanced for that.
std::optional<Plan> in_form(const Plan& plan, PlanSketch sketch, const Problem& problem, PipelineForm form) {
  const std::vector<PipelineForm> alone{form, form};  // timed as a form, not as printed
  Evaluator evaluator({problem.hardware, problem.topology, problem.job, problem.bounds, alone});
  const int choice = evaluator.choice_of(plan.micro_batches);
  if (choice < 0 || !evaluator.balance_sketch(sketch, choice).feasible()) return std::nullopt;
  Plan made = plan;
  made.chunks.clear();
  for (std::size_t s = 0; s < made.stages.size(); ++s) made.stages[s].layers = sketch.stages[s].layers;
  made = with_form(std::move(made), form);
  if (form_of(made) != form) return std::nullopt;  // too few layers
  return made;
}

double searched(const Plan& plan, const Hardware& hardware, const Topology& topology, const JobCoefficients& job) {
  return search_lists(list_problem(hardware, topology, job, plan), kWork).ms;
}

}  // namespace

double PlacementReach::reached_ms() const {
  return searched_ms <= (1 - kLeastGain) * named_ms ? searched_ms : named_ms;
}

PlacementReach reach_of(Plan plan, const Hardware& hardware, const Topology& topology, const JobCoefficients& job) {
  const double named = evaluate_plan(hardware, topology, job, plan).exact_ms;
  const bool lists = plan.stages.size() > 1 && operations(plan) <= kMostSearchedOperations;
  const double reached = lists ? std::min(named, searched(plan, hardware, topology, job)) : named;
  return {std::move(plan), named, reached};
}

std::vector<PlacementReach> placement_reaches(const Plan& plan, const PlanSketch& sketch, const Problem& problem) {
  std::vector<PlacementReach> list;
  if (plan.stages.size() < 2 || sketch.stages.size() != plan.stages.size()) return list;
  const auto weigh = [&](Plan one) {
    if (operations(one) > kMostSearchedOperations) return;
    const Prediction named = evaluate_plan(problem.hardware, problem.topology, problem.job, one);
    if (!named.feasible) return;
    const auto known = std::find_if(list.begin(), list.end(), [&](const PlacementReach& other) {
      return same_placement(form_of(other.plan), form_of(one));
    });
    if (known == list.end()) list.push_back({std::move(one), named.exact_ms, 0});
    else if (known != list.begin() && named.exact_ms < known->named_ms) *known = {std::move(one), named.exact_ms, 0};
  };
  weigh(plan);
  if (list.empty()) return list;
  for (const PipelineForm& form : problem.forms)
    if (auto other = in_form(plan, sketch, problem, form)) weigh(std::move(*other));
  for (PlacementReach& one : list)
    one.searched_ms = searched(one.plan, problem.hardware, problem.topology, problem.job);
  return list;
}

Plan with_searched_placement(Plan plan, const PlanSketch& sketch, const Problem& problem, const ElasticJob& job) {
  if (!chooses_schedule(job) || job.parallel.first) return plan;
  const std::vector<PlacementReach> list = placement_reaches(plan, sketch, problem);
  if (list.empty()) return plan;
  const PlacementReach& own = list.front();
  const PlacementReach* best = &own;
  for (const PlacementReach& one : list)
    if (one.searched_ms < (1 - kLeastGain) * own.searched_ms && one.searched_ms < best->searched_ms &&
        one.named_ms <= kMostSlower * own.named_ms)
      best = &one;
  return best->plan;
}

Plan with_searched_placement(Plan plan, const ElasticJob& job, const Site& site, const JobCoefficients& coefficients) {
  const auto sketch = sketch_of(plan, site);
  if (!sketch || !chooses_schedule(job)) return plan;
  const PlanBounds bounds = bounds_of(job, site);
  const JobCoefficients allowed = as_the_job_allows(coefficients, job);
  return with_searched_placement(std::move(plan), *sketch,
                                 {site.hardware, site.topology, allowed, bounds, forms_of(job)}, job);
}

}  // namespace espalier
