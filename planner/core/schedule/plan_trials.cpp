#include "planner/core/schedule/plan_trials.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/schedule/growth_record.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/job_site.hpp"
#include "planner/core/schedule/materialize.hpp"
#include "planner/core/schedule/plan_residuals.hpp"
#include "planner/core/schedule/shrinking.hpp"
#include "planner/core/schedule/virtual_job.hpp"

namespace espalier {
namespace {

// A plan is not tried if it is expected to be this many times as slow as the fastest that was measured.
constexpr double kMuchSlower = 1.35;
// Step times within 1% of each other count as equal.
constexpr double kFaster = 1.01;
// For one shape, so that a look at all of them takes milliseconds.
constexpr SearchEffort kTrialEffort{1, 3, 0, 500};
// More stages than this are not tried: the numbers that are tried are powers of two.
constexpr int kMostStages = 64;

std::vector<GpuId> gpus_of(const Plan& plan) {
  auto gpus = plan.ranks();
  std::sort(gpus.begin(), gpus.end());
  return gpus;
}

const MeasuredPlan* fastest(const PlanTrials& trials) {
  const auto at = std::min_element(trials.measured.begin(), trials.measured.end(),
                                   [](const auto& a, const auto& b) { return a.step_seconds < b.step_seconds; });
  return at == trials.measured.end() ? nullptr : &*at;
}

bool was_tried(const PlanTrials& trials, const PlanShape& shape) {
  return std::find(trials.begun.begin(), trials.begun.end(), shape) != trials.begun.end() ||
         std::any_of(trials.measured.begin(), trials.measured.end(),
                     [&](const MeasuredPlan& one) { return shape_of(one.plan) == shape; });
}

// Stages and TP degree alone: with other micro-batches only the fastest is tried.
bool degrees_were_tried(const PlanTrials& trials, const PlanShape& shape) {
  const auto same = [&](const PlanShape& one) { return one.stages == shape.stages && one.tp == shape.tp; };
  return std::any_of(trials.begun.begin(), trials.begun.end(), same) ||
         std::any_of(trials.measured.begin(), trials.measured.end(),
                     [&](const MeasuredPlan& one) { return same(shape_of(one.plan)); });
}

struct Found {
  Plan plan;
  double ms = 0;  // by the model
  PlanResiduals::Estimate expected;
};

class Search {
 public:
  Search(const ElasticJob& job, const Site& all, const JobCoefficients& coefficients)
      : job_(job),
        site_(site_for(all, job)),
        coefficients_(as_the_job_allows(coefficients, job)),
        bounds_(bounds_of(job, site_)),
        held_(held_gpus(held_by(job, site_))),
        pieces_(pieces_of(held_, site_)) {
    auto present = sketch_of(*job.plan, site_);
    if (!present) return;
    const auto forms = forms_of(job);
    if (forms.size() == 1) present->form = forms.front();
    fit_memory_to_running_plan({site_.hardware, site_.topology, coefficients_, bounds_, forms}, *present,
                               coefficients_);
    present_ms_ = ms_of(*job.plan);
  }

  double present_ms() const { return present_ms_; }  // 0: the model cannot express the plan

  // The fastest plan of this shape on all GPUs; 0: any TP degree or number of micro-batches. nullopt: none fits.
  std::optional<Found> best(const PlanShape& shape) const {
    PlanBounds bounds = bounds_;
    const auto fix = [](int& bound, int value) {
      if (bound != 0 && value != 0 && bound != value) return false;
      if (value != 0) bound = value;
      return true;
    };
    if (!fix(bounds.fixed_pp, shape.stages) || !fix(bounds.fixed_tp, shape.tp) ||
        !fix(bounds.fixed_micro_batches, shape.micro_batches))
      return std::nullopt;
    bounds.min_gpus = job_.plan->gpu_count();
    const Problem problem{site_.hardware, site_.topology, coefficients_, bounds, forms_of(job_)};
    Evaluator evaluator(problem);
    const auto found = best_plan(evaluator, pieces_, {}, kTrialEffort);
    if (!found) return std::nullopt;
    auto plan = materialize(problem, found->sketch, job_, held_);
    if (!plan) return std::nullopt;
    *plan = in_its_form(std::move(*plan), found->sketch.form, job_);
    const double ms = ms_of(*plan);
    if (!(ms > 0) || gpus_of(*plan) != gpus_of(*job_.plan)) return std::nullopt;
    return Found{std::move(*plan), ms, {}};
  }

  double ms_of(const Plan& plan) const {  // 0: the model cannot express the plan
    const auto timed = evaluate_plan(site_.hardware, site_.topology, coefficients_, plan);
    return timed.feasible ? timed.exact_ms : 0;
  }

 private:
  const ElasticJob& job_;
  const Site site_;
  JobCoefficients coefficients_;
  const PlanBounds bounds_;
  const std::vector<NodeGpus> held_;
  const std::vector<Piece> pieces_;
  double present_ms_ = 0;
};

// What the measured plans tell of the others. Those that the model cannot express tell nothing.
PlanResiduals residuals(const PlanTrials& trials, const Search& search) {
  PlanResiduals result;
  for (const MeasuredPlan& one : trials.measured)
    if (const double ms = search.ms_of(one.plan); ms > 0) result.add(one.plan, ms / 1000, one.step_seconds);
  return result;
}

// A plan for each number of stages and TP degree that was not tried: first the one that may be the fastest. Those that
// may be faster than `best` seconds, and are not thought much slower.
std::vector<Found> candidates(const PlanTrials& trials, const Search& search, const ElasticJob& job,
                              const JobCoefficients& coefficients, double best) {
  const PlanResiduals learned = residuals(trials, search);
  std::vector<Found> list;
  const int gpus = job.plan->gpu_count();
  for (int stages = 1; stages <= std::min({gpus, job.model.layers, kMostStages}); stages *= 2)
    for (const int tp : coefficients.tp_degrees) {
      if (stages * tp > gpus || degrees_were_tried(trials, {stages, tp, 0})) continue;
      auto found = search.best({stages, tp, 0});
      if (!found) continue;
      found->expected = learned.of(found->plan, found->ms / 1000);
      list.push_back(std::move(*found));
    }
  std::erase_if(list, [&](const Found& one) {
    return one.expected.seconds > kMuchSlower * best || kFaster * one.expected.hopeful() > best;
  });
  std::stable_sort(list.begin(), list.end(),
                   [](const Found& a, const Found& b) { return a.expected.hopeful() < b.expected.hopeful(); });
  return list;
}

// The fastest plan with the next smaller or larger number of micro-batches that fits: fewer are longer, which GPUs use
// better, and more leave the pipeline less empty.
std::optional<Found> other_micro_batches(const PlanTrials& trials, const Search& search, const Plan& best) {
  const PlanShape shape = shape_of(best);
  std::vector<int> counts;
  for (int count = shape.micro_batches - 1; count >= 1; --count)
    if (best.global_batch % count == 0) {
      counts.push_back(count);
      break;
    }
  for (int count = shape.micro_batches + 1; count <= best.global_batch; ++count)
    if (best.global_batch % count == 0) {
      counts.push_back(count);
      break;
    }
  for (const int count : counts) {
    const PlanShape other{shape.stages, shape.tp, count};
    if (was_tried(trials, other)) continue;
    auto found = search.best(other);
    if (found && found->ms <= kMuchSlower * search.present_ms()) return found;
  }
  return std::nullopt;
}

Decision change(const ElasticJob& job, Plan plan, double step_seconds) {
  Decision decision;
  decision.kind = DecisionKind::migrate;
  decision.trigger = Trigger::profile_ready;
  decision.job = job.id;
  decision.predicted_step_seconds = step_seconds;
  decision.candidates.push_back({describe(plan), 0, step_seconds, 0, {}});
  decision.plan = std::move(plan);
  return decision;
}

}  // namespace

PlanShape shape_of(const Plan& plan) {
  PlanShape shape{static_cast<int>(plan.stages.size()), 1, plan.micro_batches};
  for (const Stage& stage : plan.stages) shape.tp = std::max(shape.tp, stage.tp);
  return shape;
}

bool is_measured(const PlanTrials& trials, const Plan& plan) {
  return std::any_of(trials.measured.begin(), trials.measured.end(),
                     [&](const MeasuredPlan& one) { return one.plan == plan; });
}

bool note_steps(PlanTrials& trials, const ElasticJob& job) {
  if (!job.plan || job.phase != JobPhase::running) return false;
  if (trials.generation != job.generation || trials.plan != *job.plan) {
    auto gpus = gpus_of(*job.plan);
    if (gpus != trials.gpus) trials = {std::move(gpus), {}, {}, false, -1, 0};
    trials.generation = job.generation;
    trials.plan = *job.plan;
    trials.from_step = job.step;
  }
  if (job.step - trials.from_step < kTrialSteps || !(job.step_seconds > 0)) return false;
  const auto known = std::find_if(trials.measured.begin(), trials.measured.end(),
                                  [&](const MeasuredPlan& one) { return one.plan == *job.plan; });
  if (known != trials.measured.end()) known->step_seconds = job.step_seconds;
  else trials.measured.push_back({*job.plan, job.step_seconds});
  return true;
}

std::optional<Decision> next_trial(const PlanTrials& trials, const ElasticJob& job, const Site& site,
                                   const JobCoefficients& coefficients, int most) {
  const MeasuredPlan* const best = fastest(trials);
  if (best == nullptr || !job.plan) return std::nullopt;
  const Search search(job, site, coefficients);
  const auto tries = static_cast<int>(trials.begun.size());
  if (tries < most && search.present_ms() > 0) {
    auto list = candidates(trials, search, job, coefficients, best->step_seconds);
    std::optional<Found> next;
    // The last trial is of micro-batches, if more than one is left to be made.
    if (list.empty() || (tries + 1 == most && most > 1)) next = other_micro_batches(trials, search, best->plan);
    if (!next && !list.empty()) next = std::move(list.front());
    if (next) {
      const double predicted = residuals(trials, search).of(next->plan, next->ms / 1000).seconds;
      Decision decision = change(job, std::move(next->plan), predicted);
      decision.reason = "a trial of " + std::to_string(kTrialSteps) +
                        " steps: another plan on its GPUs may be faster than the " + seconds_text(best->step_seconds) +
                        " per step that are known (predicted " + seconds_text(predicted) + ")";
      return decision;
    }
  }
  if (job.step_seconds < kFaster * best->step_seconds || best->plan == *job.plan) return std::nullopt;
  Decision decision = change(job, best->plan, best->step_seconds);
  decision.reason = "of " + std::to_string(trials.measured.size()) +
                    " plans that were measured on its GPUs the fastest takes " + seconds_text(best->step_seconds) +
                    " per step, the present one " + seconds_text(job.step_seconds);
  return decision;
}

}  // namespace espalier
