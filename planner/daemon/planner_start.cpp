// The planner's work for jobs that do not run yet: the plan of generation 0.
#include <spdlog/spdlog.h>

#include "planner/core/error.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/schedule/first_plan.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/planning_basis.hpp"
#include "planner/core/schedule/searched_placement.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/objective_weights.hpp"
#include "planner/daemon/planner.hpp"
#include "planner/daemon/planning_input.hpp"
#include "planner/daemon/queue_profiles.hpp"
#include "planner/daemon/share_words.hpp"
#include "planner/wire/start_messages.hpp"

namespace espalier {
namespace {

// Seconds of the loop that plans of new jobs take before it answers others again. One of 512 GPUs alone may take
// longer.
constexpr double kPlanning = 0.05;
constexpr std::chrono::milliseconds kPause{10};
// A user who has used up the loop's time waits this long before a job of his is looked at again. The job's launcher
// waits for launch.plan_seconds, and then chooses a plan by itself.
constexpr std::chrono::milliseconds kLater{200};

}  // namespace

void Planner::tell_known(LiveJob& live, const std::vector<ExtensionRequest>& more) {
  if (!live.link || !site_) return;
  std::set<std::string> nodes;
  for (const auto* holdings : {&live.job.anchor, &live.job.extensions})
    for (const Holding& held : *holdings) nodes.insert(held.node);
  for (const ExtensionRequest& request : more) nodes.insert(request.node);
  for (const JobId base : live.bases)
    if (const SlurmJob* const held = last_ ? last_->alive(base) : nullptr; held != nullptr && held->uid == live.job.uid)
      for (const Holding& part : held->holdings) nodes.insert(part.node);
  wire::Known known{basis_json(*site_, nodes, live.profiles.coefficients(*site_))};
  std::string text = known.basis.dump();
  if (text == live.told) return;
  live.told = std::move(text);
  live.link->send(known);
}

void Planner::plan_starts(const SlurmSnapshot& slurm) {
  if (!site_) return;
  const double until = clock_seconds() + kPlanning;
  // Not by way of a decision, which may take longer than launchers wait for their plans.
  const auto go_on = [this] {
    if (last_) plan_starts(*last_);
  };
  for (auto& [id, live] : jobs_) {
    const ElasticJob& job = live.job;
    if (!live.link || live.open || live.start_planned || job.phase != JobPhase::launching) continue;
    if (job.plan || job.model.layers <= 0 || is_suspended(job, slurm)) continue;
    const double begin = clock_seconds();
    if (begin >= until) {  // the others' turn comes when the loop has answered everybody else
      more_starts_ = loop_.after(kPause, go_on);
      return;
    }
    // The first plan of a job is free: its launcher waits for it, and a machine under load must not cost the user that
    // plan. Who registers a job again and again pays for its plans with the loop's time.
    const bool again = live.planned_at_start_of == live.started;
    if (again && time_until(job.uid) > 0) {
      more_starts_ = loop_.after(kLater, go_on);
      continue;
    }
    live.start_planned = true;
    live.planned_at_start_of = live.started;
    try {
      plan_start(live, slurm);
    } catch (const Error& error) {  // its launcher finds the same and tells its user
      log_.line(job.uid, spdlog::level::warn, "job {}: {}", id, error.what());
      live.link->send(wire::Unplanned{error.what()});
    }
    if (settings_.shadow) live.link->send(wire::Unplanned{"the planner runs in shadow mode"});
    if (again) charge_time(job.uid, clock_seconds() - begin);
  }
}

void Planner::plan_start(LiveJob& live, const SlurmSnapshot& slurm) {
  const auto measured = live.profiles.coefficients(*site_);
  // A program that tells its shape only when it runs has ranks on all its GPUs already.
  const RankOrder order = live.job.ranks_run ? RankOrder::given : RankOrder::planned;
  DecisionRecord record;
  record.decision = start_decision(confirmed(live.job, slurm, settings_.max_gpus), measured, order, slurm);
  if (live.profiles.recalled())
    record.decision.reason += told_by_stages(store_, live.recalled_rows, live.job.id, record.decision.plan, *site_);
  record.moments["decided"] = record.decision.time;
  if (live.job.deadline > 0) {
    const auto found = forecast(live, order, slurm);
    if (found) record.decision.objective = describe(*found, live.job.deadline, record.decision.time);
    // The launcher ends a job that is refused, and in shadow mode no job ends because of the planner.
    const bool refuses = settings_.refuses_late_deadlines && !settings_.shadow;
    live.link->send(wire::DeadlineChecked{found.has_value(), refuses, found.value_or(DeadlineForecast{})});
  }
  propose(live, std::move(record));
}

// From the plan on its own GPUs, whatever extensions it may start with, and with the GPUs alone that the site lets it
// have.
std::optional<DeadlineForecast> Planner::forecast(const LiveJob& live, RankOrder order,
                                                  const SlurmSnapshot& slurm) const {
  const auto measured = live.profiles.coefficients(*site_);
  ElasticJob job = confirmed(live.job, slurm, settings_.max_gpus);
  const JobCoefficients coefficients = measured.value_or(sheet_for(job, *site_));
  FirstPlan first = first_plan(job, *site_, coefficients, order);
  job.plan = std::move(first.plan);
  job.step_seconds = first.ms / 1000;
  const int most_ever = job.max_gpus;
  NodeNames closed;
  if (const SlurmJob* anchor = slurm.alive(job.id)) {
    const AccountLimits limits(slurm, jobs_, settings_.rules.share, settings_.partition);
    job.max_gpus = most_by_account(job, limits, *anchor);
    job.held = job.held || !barred(*anchor, slurm, settings_.rules).empty();
    closed = OpenNodes(slurm, node_findings(), settings_.rules).closed_to(live, job, *anchor);
  }
  return deadline_forecast(job, *site_, coefficients, measured.has_value(), clock_seconds(),
                           live.start_seconds.value_or(0), closed ? *closed : std::vector<std::string>(), most_ever);
}

// With coefficients of a job like it the new job may start on idle GPUs at once. Without them it
// starts on its own GPUs: a growth on assumed figures would only cost it time.
Decision Planner::start_decision(ElasticJob job, const std::optional<JobCoefficients>& measured, RankOrder order,
                                 const SlurmSnapshot& slurm) const {
  FirstPlan first = first_plan(job, *site_, measured.value_or(sheet_for(job, *site_)), order);
  if (measured) {
    Plan placed = with_searched_placement(first.plan, job, *site_, *measured);
    if (placed != first.plan) {
      const JobCoefficients known = as_the_job_allows(*measured, job);
      first.ms = evaluate_plan(site_->hardware, site_->topology, known, placed).exact_ms;
      first.candidates.front().rejected_by = "lists that are searched once the job runs reach less with its chunks";
      first.candidates.insert(first.candidates.begin(), {describe(placed), placed.gpu_count(), first.ms / 1000, 0, {}});
      first.plan = std::move(placed);
      first.remark = kPlacedBySearch;  // it fits, so there is no other
    }
  }
  Decision decision;
  decision.time = clock_seconds();
  decision.trigger = Trigger::job_started;
  decision.kind = DecisionKind::start;
  decision.job = job.id;
  decision.plan = std::move(first.plan);
  decision.candidates = std::move(first.candidates);
  if (measured) decision.predicted_step_seconds = first.ms / 1000;
  decision.reason = measured ? "the fastest plan on its own GPUs, from coefficients measured on a job like it"
                             : "the fastest plan on its own GPUs by the GPUs' data sheets; nothing is measured yet";
  if (job.parallel.first) decision.reason = "the user's own plan ([parallel] plan)";
  if (!first.remark.empty()) decision.reason += "; " + first.remark;
  if (!measured || order != RankOrder::planned || job.held) return decision;
  PlanningInput input = make_input(slurm, jobs_, Trigger::job_started,
                                   {settings_.max_gpus,
                                    settings_.partition,
                                    site_,
                                    &submissions_.arrivals(),
                                    settings_.rules,
                                    {},
                                    settings_.scheduler.objective});
  job.plan = decision.plan;
  job.phase = JobPhase::running;
  job.step_seconds = first.ms / 1000;
  input.coefficients = {{job.id, *measured}};
  // It has to start anyway.
  input.start_seconds[job.id] = input.redeploy_seconds[job.id] = 0;
  if (const SlurmJob* anchor = slurm.alive(job.id)) {
    const AccountLimits limits(slurm, jobs_, settings_.rules.share, settings_.partition);
    job.max_gpus = most_by_account(job, limits, *anchor);
    LiveJob waits;  // one that has not started yet
    waits.job.uid = job.uid;
    const auto live = jobs_.find(job.id);
    input.closed[job.id] = OpenNodes(slurm, node_findings(), settings_.rules)
                               .closed_to(live == jobs_.end() ? waits : live->second, job, *anchor);
    job.held = !barred(*anchor, slurm, settings_.rules).empty();
  }
  input.jobs = {job};
  for (Decision& wide : make_scheduler(settings_.scheduler)->decide(input)) {
    if (wide.kind != DecisionKind::grow) continue;
    decision.reason = "starts wide: " + wide.reason;
    if (const SlurmJob* anchor = slurm.alive(job.id))
      decision.reason += share_reason(wide, *anchor, ShareNodes(slurm, settings_.rules.share), settings_.rules.share) +
                         weight_reason(objective_weights(*anchor, slurm, settings_.scheduler.objective));
    decision.objective = std::move(wide.objective);
    decision.plan = std::move(wide.plan);
    decision.acquire = std::move(wide.acquire);
    decision.predicted_step_seconds = wide.predicted_step_seconds;
    decision.candidates = std::move(wide.candidates);
  }
  return decision;
}

}  // namespace espalier
