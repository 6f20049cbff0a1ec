#include "launcher/job/list_search.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

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
constexpr std::size_t kMedianOf = 16;
// Each rank gets the lists' text: the launcher sends no more than so many bytes of it, which take it some tenths of a
// second.
constexpr std::size_t kMostText = 64u << 20;

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
  const PlanningBasis known = callbacks_.known();
  std::optional<ListProblem> problem;
  searched_ = true;
  try {
    const double rail = known.coefficients ? known.coefficients->rail_ms_per_byte : 0;
    problem = list_problem(known.site.hardware, known.site.topology, profile, rail);
  } catch (const Error& error) {
    spdlog::debug("launch: no lists are searched: {}", error.what());
    return;
  }
  if (!thread_) thread_ = std::make_unique<wire::SideThread>(loop_, 2, wire::SideThread::End::wait, kNice);
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
  std::string csv = pipeline::write_csv(result.lists);
  if (csv.size() * static_cast<std::size_t>(profile.plan.gpu_count()) > kMostText)
    return spdlog::info("espalier: launch: searched lists would save {:.1f}% of a step, and are too long for {} ranks",
                        100 * result.gain(), profile.plan.gpu_count());
  const Decision decision = list_decision(job_, profile.plan, result);
  spdlog::info("espalier: launch: {}; found in {:.0f} ms beside training", decision.reason, search_ms);
  proposed_ = true;
  trial_ = Trial{profile.plan, steps_.usual()};
  callbacks_.propose(decision, Lists{std::move(csv), search_ms});
}

double ListSearch::Steps::usual() const {
  if (seconds.empty()) return 0;
  std::vector<double> sorted(seconds.begin(), seconds.end());
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
  return sorted[sorted.size() / 2];
}

void ListSearch::another_plan() {
  ++asked_;
  waits_.reset();
  searched_ = std::exchange(proposed_, false);
  steps_ = {};
  runs_ = searched_ && trial_ && !trial_->leaves;
  if (searched_ && trial_ && trial_->leaves) over_ = true;
  if (!runs_) trial_.reset();
}

void ListSearch::stepped(double seconds) {
  if (over_ || !callbacks_.idle()) return;
  if (++steps_.count > 1) steps_.seconds.push_back(seconds);
  if (steps_.seconds.size() > kMedianOf) steps_.seconds.pop_front();
  if (!trial_ || !runs_ || steps_.count < kTrialSteps) return;
  if (trial_->before == 0 || steps_.usual() <= kNotSlower * trial_->before) return trial_.reset();
  leave();
}

void ListSearch::leave() {
  trial_->leaves = true;
  Decision decision;
  decision.kind = DecisionKind::migrate;
  decision.trigger = Trigger::profile_ready;
  decision.job = job_;
  decision.plan = trial_->plan;
  decision.predicted_step_seconds = trial_->before;
  decision.reason = fmt::format("with the searched lists a step takes {:.4g} s, with {} it took {:.4g} s",
                                steps_.usual(), form_of(trial_->plan).schedule(), trial_->before);
  spdlog::info("espalier: launch: {}; no other lists are searched", decision.reason);
  proposed_ = true;
  callbacks_.propose(decision, std::nullopt);
}

bool ListSearch::given_up() {
  if (!std::exchange(proposed_, false)) return false;
  searched_ = runs_;  // lists that run already are tried for some more steps
  steps_ = {};
  if (runs_) trial_->leaves = false;
  else trial_.reset();
  return true;
}

void ListSearch::lost() {
  if (runs_ && trial_ && ++losses_ > 1) over_ = true;
}

}  // namespace espalier::launcher
