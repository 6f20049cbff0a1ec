// The planner's work for trials of plans: a job runs some steps of other plans on its GPUs, and keeps the fastest.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "planner/core/data_parallel.hpp"
#include "planner/core/schedule/player.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/planner.hpp"

namespace espalier {
namespace {

constexpr double kHour = 3600;
constexpr std::size_t kMostInHour = 12;  // trials of one job, whose GPUs may change often
constexpr std::size_t kMostLooks = 4;    // jobs in one decision, which bounds its latency
// A job with fewer steps left would not win back what trials cost it: a trial is of 20 steps, some of them slower.
constexpr std::int64_t kWorthIt = 400;
// Nor would one whose changes stand still for long, e.g. by way of a checkpoint: of the time that is left, the changes
// of all its trials may take this share.
constexpr double kMostStandstill = 0.02;

}  // namespace

void Planner::note_trial(LiveJob& live) {
  if (settings_.plan_trials == 0 || !note_steps(live.trials, live.job) || live.trials.finished ||
      std::exchange(live.trial_due, true))
    return;
  save_coefficients(live);  // with the trials, for the next espalierd
  think_for(live.job.uid, Trigger::profile_ready);
}

// Growth, and its own trial, come first.
bool Planner::may_try(const LiveJob& live, double now) const {
  const ElasticJob& job = live.job;
  const bool rested = !live.last_change || now - *live.last_change >= settings_.scheduler.cooldown_seconds;
  return live.trial_due && !live.trials.finished && live.link && !live.open && !live.before_growth && !job.held &&
         job.plan && job.phase == JobPhase::running && live.profiles.settled() && live.bases.size() <= 1 && rested &&
         is_measured(live.trials, *job.plan) && !job.parallel.first && !data_parallel_only(job);
}

// 0: it tries nothing more. It may still go back to the fastest plan that was measured.
int Planner::most_trials(LiveJob& live, double now) const {
  const ElasticJob& job = live.job;
  std::erase_if(live.tried_at, [&](double time) { return now - time >= kHour; });
  const bool few_steps = job.total_steps > 0 && job.total_steps - job.step < kWorthIt;
  const double pauses = live.pause_seconds.value_or(0) * (settings_.plan_trials + 1);
  const bool worth_it = !few_steps && pauses <= kMostStandstill * remaining_seconds(job);
  return worth_it && live.tried_at.size() < kMostInHour ? settings_.plan_trials : 0;
}

std::vector<Planner::TrialJob> Planner::trials_now(double now) {
  std::vector<TrialJob> list;
  const SchedulerOptions& options = settings_.scheduler;
  // The published policies choose their plans as published.
  if (settings_.plan_trials == 0 || options.as_printed || options.flextrain || options.arena ||
      options.data_parallel_only)
    return list;
  for (auto& [id, live] : jobs_)
    if (list.size() < kMostLooks && may_try(live, now)) list.push_back({id, live.trials, most_trials(live, now)});
  return list;
}

void Planner::find_trial(const Deciding& from, Decided& result) {
  for (const TrialJob& one : from.trials) {
    const auto job = std::lower_bound(from.input.jobs.begin(), from.input.jobs.end(), one.id,
                                      [](const ElasticJob& a, JobId id) { return a.id < id; });
    const auto known = from.input.coefficients.find(one.id);
    const bool decided = std::any_of(result.decisions.begin(), result.decisions.end(),
                                     [&](const Decision& decision) { return decision.job == one.id; });
    if (decided || (result.move && result.move->job == one.id) || !from.input.site || job == from.input.jobs.end() ||
        job->id != one.id || known == from.input.coefficients.end())
      continue;
    result.trial = next_trial(one.trials, *job, *from.input.site, known->second, one.most);
    if (result.trial) {
      result.trial->time = from.input.now;
      return;
    }
    result.tried_out.push_back(one.id);
  }
}

void Planner::apply_trial(const Deciding& from, const Decided& result) {
  for (const JobId id : result.tried_out) {
    const auto at = jobs_.find(id);
    if (at == jobs_.end() || std::exchange(at->second.trials.finished, true)) continue;
    const PlanTrials& trials = at->second.trials;
    save_coefficients(at->second);
    if (!trials.begun.empty())
      spdlog::info("job {}: {} plans were measured on its GPUs; it keeps the fastest, {:.3g} s per step", id,
                   trials.measured.size(), at->second.job.step_seconds);
  }
  if (!result.trial) return;
  const auto at = jobs_.find(result.trial->job);
  if (at == jobs_.end() || !may_try(at->second, clock_seconds())) return;  // the next decision looks again
  LiveJob& live = at->second;
  const auto was =
      std::find_if(from.trials.begin(), from.trials.end(), [&](const TrialJob& one) { return one.id == at->first; });
  if (was == from.trials.end() || was->trials.generation != live.job.generation || was->trials.plan != live.trials.plan)
    return;
  const bool first = !is_measured(live.trials, result.trial->plan);
  DecisionRecord record;
  record.decision = *result.trial;
  record.moments = from.moments;
  record.moments["decided"] = clock_seconds();
  propose(live, std::move(record));
  live.trial_due = false;
  if (!first) return;
  live.trials.begun.push_back(shape_of(result.trial->plan));
  live.tried_at.push_back(clock_seconds());
  save_coefficients(live);
}

}  // namespace espalier
