#include "launcher/job/list_search.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/core/model/step_statistics.hpp"
#include "planner/core/pipeline/csv.hpp"
#include "planner/core/pipeline_form.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {

// Of the step's time: the model's own errors are within 2% (RESULTS.md), and less is not worth a change.
constexpr double kLeastGain = 0.02;
constexpr std::int64_t kLeastSteps = 50;  // that are left: the change itself takes a pause of milliseconds
constexpr int kNice = 19;                 // what the training leaves
// After so many steps with lists a step may take this factor of what it took before, or the lists are left.
constexpr int kTrialSteps = 20;
constexpr double kNotSlower = 1.05;

bool leaves_schedule(const ModelShape& shape) {
  return shape.setting && shape.setting->schedule.starts_with(kAutomaticSchedule);
}

std::string seconds(double ms) { return fmt::format("{:.4g} s", ms / 1000); }

}  // namespace

Decision list_decision(JobId job, const Plan& plan, const SearchedLists& found) {
  Decision decision;
  decision.kind = DecisionKind::migrate;
  decision.trigger = Trigger::profile_ready;
  decision.job = job;
  decision.plan = plan;
  decision.predicted_step_seconds = found.ms / 1000;
  const std::string own = form_of(plan).schedule();
  decision.reason =
      fmt::format("lists searched for the measured stages and the GPUs' memory take {} of pipeline a step, {} takes {}",
                  seconds(found.ms), own, seconds(found.present_ms));
  if (!found.best_generator.empty() && found.best_generator != own)
    decision.reason += fmt::format(", and {}, the fastest known schedule of these chunks that fits, takes {}",
                                   found.best_generator, seconds(found.generator_ms));
  decision.candidates.push_back({describe(plan), 0, found.present_ms / 1000, 0, "the searched lists take less time"});
  decision.candidates.push_back({describe(plan) + ", searched lists", 0, found.ms / 1000, found.gain(), {}});
  return decision;
}

ListSearch::ListSearch(wire::Loop& loop, JobId job, Callbacks callbacks, wire::Loop::Milliseconds patience)
    : loop_(loop), job_(job), callbacks_(std::move(callbacks)), patience_(patience) {}

void ListSearch::profiled(const Profile& profile) {
  if (over_ || searched_ || profile.plan.stages.size() < 2 || !leaves_schedule(profile.shape) || !calm(profile)) return;
  if (!callbacks_.idle() || callbacks_.steps_left() < kLeastSteps) return;
  const PlanningBasis& known = callbacks_.known();
  std::optional<ListProblem> problem;
  searched_ = true;
  try {
    const double rail = known.coefficients ? known.coefficients->rail_ms_per_byte : 0;
    problem = list_problem(known.site.hardware, known.site.topology, profile, rail);
  } catch (const Error& error) {
    spdlog::debug("launch: no lists are searched: {}", error.what());
    return;
  }
  if (!thread_) thread_ = std::make_unique<wire::SideThread>(loop_, 2, wire::SideThread::End::leave, kNice);
  // An invariant that does not hold there must not end the job.
  thread_->post([this, asked = asked_, profile, problem = std::move(*problem)]() -> std::function<void()> {
    const auto began = wire::steady_now();
    try {
      auto result = std::make_shared<const SearchedLists>(search_lists(problem));
      const double ms = std::chrono::duration<double, std::milli>(wire::steady_now() - began).count();
      return [this, asked, profile, result, ms] { found(asked, profile, result, ms); };
    } catch (const std::exception& error) {
      return [text = std::string(error.what())] {
        spdlog::warn("espalier: launch: no lists were found for the pipeline: {}", text);
      };
    }
  });
}

void ListSearch::found(int asked, const Profile& profile, std::shared_ptr<const SearchedLists> result,
                       double search_ms) {
  if (asked != asked_ || over_) return;
  if (result->gain() < kLeastGain)
    return spdlog::info(
        "espalier: launch: lists searched for the measured stages would save {:.1f}% of a step: {} stays",
        100 * result->gain(), form_of(profile.plan).schedule());
  waits_ = loop_.after(patience_, [this, profile, result, search_ms] {
    waits_.reset();
    propose(profile, *result, search_ms);
  });
}

void ListSearch::propose(const Profile& profile, const SearchedLists& result, double search_ms) {
  if (!callbacks_.idle()) {
    searched_ = false;  // the next profile asks again
    return;
  }
  const Decision decision = list_decision(job_, profile.plan, result);
  spdlog::info("espalier: launch: {}; found in {:.0f} ms beside training", decision.reason, search_ms);
  proposed_ = true;
  trial_ = Trial{profile.plan, callbacks_.step_seconds()};
  callbacks_.propose(decision, Lists{pipeline::write_csv(result.lists), search_ms});
}

void ListSearch::another_plan() {
  ++asked_;
  waits_.reset();
  searched_ = std::exchange(proposed_, false);
  if (searched_ && trial_ && !trial_->runs) trial_->runs = true;
  else trial_.reset();
}

void ListSearch::stepped() {
  if (!trial_ || !trial_->runs || ++trial_->steps < kTrialSteps) return;
  if (callbacks_.step_seconds() <= kNotSlower * trial_->before) return trial_.reset();
  if (callbacks_.idle()) leave();
}

void ListSearch::leave() {
  const Trial trial = *trial_;
  trial_.reset();
  Decision decision;
  decision.kind = DecisionKind::migrate;
  decision.trigger = Trigger::profile_ready;
  decision.job = job_;
  decision.plan = trial.plan;
  decision.predicted_step_seconds = trial.before;
  decision.reason = fmt::format("with the searched lists a step takes {:.4g} s, with {} it took {:.4g} s",
                                callbacks_.step_seconds(), form_of(trial.plan).schedule(), trial.before);
  spdlog::info("espalier: launch: {}; no other lists are searched", decision.reason);
  proposed_ = over_ = true;
  callbacks_.propose(decision, std::nullopt);
}

bool ListSearch::given_up() {
  if (!std::exchange(proposed_, false)) return false;
  searched_ = false;
  trial_.reset();
  return true;
}

}  // namespace espalier::launcher
