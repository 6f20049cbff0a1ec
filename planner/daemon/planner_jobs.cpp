// The planner's work for launchers: registrations, reports, outcomes and ends.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "planner/core/error.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/planner.hpp"
#include "planner/daemon/printable.hpp"
#include "planner/daemon/report_check.hpp"

namespace espalier {
namespace {

// After a growth that was taken back: seconds until the job may grow again, doubled each time, and until it may grow
// onto these nodes again.
constexpr double kRegretRests = 60, kAvoidSeconds = 3600;
constexpr int kMostRegrets = 6;
// A launcher has this long to say goodbye after Slurm has ended its job.
constexpr double kEndedSeconds = 60;

}  // namespace

void Planner::status(JobId id, const ElasticJob& news) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  check_report(news);
  if (news.id != id) throw Error("status of job " + std::to_string(news.id) + " from job " + std::to_string(id));
  LiveJob& live = found->second;
  check_gpus(live, news);
  const ElasticJob old = std::exchange(live.job, news);
  live.job.uid = old.uid;
  live.job.held = old.held;
  measure(live);
  take_profile(live);
  note_trial(live);
  const double now = clock_seconds();
  if (!live.stands) live.usage.report(live.job, now);
  note_unfit_nodes(live, now);
  const bool changed = old.phase != news.phase || old.generation != news.generation || old.plan != news.plan ||
                       old.extensions != news.extensions || !(old.model == news.model);
  if (now - live.saved > 30 || (changed && may_write(live, now))) {
    save(live, now);
    charge_writes(live, now);
  }
  if (news.phase == JobPhase::launching && !live.start_planned && news.model.layers > 0 && !news.plan)
    think_for(live.job.uid, Trigger::job_started);
  if (news.phase != JobPhase::running) return;
  // After a registration a launcher first repeats its last outcomes and then sends news. It reports
  // the outcome of a new generation before it reports that generation's first step. An open
  // decision whose outcome has not come by then was lost with the connection.
  const bool same = live.proposed_to == news.generation && (!live.open || news.plan != live.open->decision.plan);
  const bool stepped = old.phase == JobPhase::running && old.generation == news.generation && news.step > old.step;
  if (live.open && live.back_since && (same || stepped)) {
    DecisionRecord record = *live.open;
    record.decision.outcome = "aborted: lost with the launcher's connection";
    finish(live, std::move(record), now);
    return think_for(live.job.uid, Trigger::generation_done);
  }
  if (news.generation != old.generation || old.phase != JobPhase::running)
    think_for(live.job.uid, Trigger::generation_done);
  else if (old.step_seconds <= 0 && news.step_seconds > 0) think_for(live.job.uid, Trigger::profile_ready);
}

// A launcher may name nodes that do not exist. Such names are not kept, and not logged.
void Planner::note_unfit_nodes(const LiveJob& live, double now) {
  constexpr std::size_t kNamed = 4;
  if (!last_ || live.job.unfit.empty()) return;
  std::vector<GpuId> known;
  for (const GpuId& gpu : live.job.unfit)
    if (last_->cluster.find(gpu.node) != nullptr) known.push_back(gpu);
  const auto fresh = unfit_nodes_.note(live.job.uid, live.job.id, known, now);
  if (fresh.empty()) return;
  std::string names = fresh.front();
  for (std::size_t i = 1; i < std::min(fresh.size(), kNamed); ++i) names += ", " + fresh[i];
  if (fresh.size() > kNamed) names += " and " + std::to_string(fresh.size() - kNamed) + " more";
  log_.line(live.job.uid, spdlog::level::warn,
            "node {}: unfit for job {}: its workers have died there again and again, or a GPU there has errors; its "
            "output tells "
            "which, and espalier show nodes tells of all such jobs",
            names, live.job.id);
}

void Planner::measure(LiveJob& live) {
  if (!live.measured || live.job.generation != live.measured->generation || live.job.step_seconds <= 0) return;
  live.measured->decision.measured_step_seconds = live.job.step_seconds;
  const double now = clock_seconds();
  if (may_write(live, now)) {
    store_.update(*live.measured);
    charge_writes(live, now);
  }
  const std::int64_t steps = live.job.step - live.measured->step;
  if (take_back(live, steps) || steps < kStepsToCompare) return;
  if (observer_ != nullptr) observer_->measured(*live.measured);
  live.measured.reset();
  live.before_growth.reset();
}

bool Planner::take_back(LiveJob& live, std::int64_t steps) {
  const auto& before = live.before_growth;
  if (!before || !live.measured || live.measured->decision.id < before->decision) return false;
  if (live.open || !live.link || live.job.held || live.job.phase != JobPhase::running) return false;
  auto back =
      taken_back(*before, live.job, steps, slow_nodes_.of(live.job.uid, clock_seconds()), settings_.trial_percent);
  if (!back) {
    if (steps >= kStepsToCompare) live.regrets = 0;
    return false;
  }
  const double now = clock_seconds();
  const auto nodes = nodes_left(live.job, *back);
  const DecisionRecord measured = *live.measured;
  DecisionRecord record;
  record.decision = std::move(*back);
  record.decision.time = now;
  record.moments = {{"decided", now}};
  try {
    propose(live, std::move(record));
  } catch (const Error& error) {  // e.g. the store is full. Uncaught, it would close the launcher's connection.
    log_.line(live.job.uid, spdlog::level::err, "job {}: its growth stays: {}", live.job.id, error.what());
    live.before_growth.reset();
    return false;
  }
  if (observer_ != nullptr) observer_->measured(measured);
  live.regrets = std::min(live.regrets + 1, kMostRegrets);
  live.grow_not_before = now + kRegretRests * (1 << (live.regrets - 1));
  std::erase_if(live.avoided, [&](const auto& one) { return one.second <= now; });
  for (const std::string& node : nodes) live.avoided[node] = now + kAvoidSeconds;
  return true;
}

void Planner::save(LiveJob& live, double now) {
  store_.save(live.job, now);
  store_.save(live.job.id, live.usage);
  live.saved = now;
}

void Planner::transition(const wire::Transition& message) {
  const auto found = jobs_.find(message.job);
  if (found == jobs_.end()) return;
  const uid_t user = found->second.job.uid;
  if (!transitions_.take(user, elastic_jobs_of(user), clock_seconds()))
    return tell_excess(found->second, "transitions");
  wire::Transition clean = message;
  for (std::string* text : {&clean.from, &clean.event, &clean.to}) *text = printable(*text, 40);
  store_.add(clean, user);
  spdlog::debug("job {}: {} --{}--> {} (generation {}, decision {})", clean.job, clean.from, clean.event, clean.to,
                clean.generation, clean.decision);
}

void Planner::outcome(const wire::Outcome& message) {
  check_report(message);
  const auto found = jobs_.find(message.job);
  if (found == jobs_.end()) return;
  LiveJob& live = found->second;
  check_gpus(live, message);
  const double now = clock_seconds();
  const bool open = live.open && live.open->decision.id == message.decision;
  if (!may_write(live, now) && !open) return tell_excess(live, "outcomes");
  std::optional<DecisionRecord> record;
  if (message.decision != 0) {
    record = open ? live.open : store_.decision(message.decision);
    // Launchers repeat their last outcome after every registration. The store may have been
    // replaced since. It may then lack the decision, or hold another job's decision under its
    // number.
    if (!record || record->decision.job != message.job) {
      log_.line(live.job.uid, spdlog::level::warn,
                "job {}: outcome of decision {}, which the store does not have for it; ignored", message.job,
                message.decision);
      return;
    }
  } else {  // the launcher acted by itself
    if (!acts_.take(live.job.uid, elastic_jobs_of(live.job.uid), now)) return tell_excess(live, "acts of their own");
    record.emplace();
    record->uid = live.job.uid;
    Decision& own = record->decision;
    own.time = now;
    own.trigger = message.trigger;
    own.candidates = message.candidates;
    own.kind = message.kind;
    own.job = message.job;
    own.plan = message.plan;
    own.reason = message.reason.empty() ? "the launcher acted by itself" : printable(message.reason);
    record->moments["decided"] = now;
    own.id = store_.add(*record);
    // A recovery ends a change under way, and the launcher reports that change's outcome first. A
    // decision that is still open here was therefore lost with the old connection.
    if (message.kind == DecisionKind::recover && live.back_since)
      live.proposed_to = std::max(live.proposed_to, message.generation);
  }
  record->decision.outcome = message.result.empty() ? "aborted: no reason given" : printable(message.result);
  record->decision.pause_ms = message.pause_ms;
  record->phases_ms = message.phases_ms;
  record->generation = message.generation;
  record->step = message.step;
  // A recovery's time was counted while its phase was reported.
  if (message.result == "committed" && message.kind != DecisionKind::recover)
    live.usage.pause(message.pause_ms / 1000, now);
  if (message.result == "committed" && !message.plan.stages.empty()) record->decision.plan = message.plan;
  finish(live, std::move(*record), now);
  charge_writes(live, now);
  think_for(live.job.uid, Trigger::generation_done);
}

void Planner::lost(JobId id, const wire::ConnectionPtr& link) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.link != link) return;
  by_link_.erase(link.get());
  found->second.link.reset();
  log_.line(found->second.job.uid, spdlog::level::warn, "job {}: connection to its launcher lost", id);
  think_for(found->second.job.uid, Trigger::node_down);
}

void Planner::bye(JobId id, int exit_code) {
  std::optional<uid_t> user;
  if (const auto found = jobs_.find(id); found != jobs_.end()) {
    user = found->second.job.uid;
    found->second.usage.end(clock_seconds());
    save(found->second, clock_seconds());
    if (found->second.open) {
      DecisionRecord record = std::move(*found->second.open);
      record.decision.outcome = "aborted: the job ended";
      store_.update(record);
      if (observer_ != nullptr) observer_->finished(record);
    }
    by_link_.erase(found->second.link.get());
    jobs_.erase(found);
    count_out(*user);
  }
  store_.end(id, exit_code, clock_seconds());
  if (user) log_.line(*user, spdlog::level::info, "job {}: its launcher is done, exit code {}", id, exit_code);
  if (user) think_for(*user, Trigger::gpus_released);
}

void Planner::forget_ended(const SlurmSnapshot& slurm) {
  std::vector<JobId> gone;
  for (const auto& [id, live] : jobs_)
    if (slurm.alive(id) == nullptr && (!live.link || ended_since_.is_over(id, slurm.time, kEndedSeconds)))
      gone.push_back(id);
  ended_since_.end_look(slurm.time);
  for (const JobId id : gone) {
    const wire::ConnectionPtr link = jobs_.at(id).link;
    bye(id, -1);
    if (!link) continue;
    link->send(wire::Refused{"job " + std::to_string(id) + ": Slurm says that it has ended"});
    link->close();
  }
}

// Ends jobs in the store that ended while no planner ran. A job that is still alive stays: its
// launcher may be reconnecting.
void Planner::end_unclaimed(const SlurmSnapshot& slurm) {
  if (!unclaimed_) {
    const auto open = store_.open_jobs(), holds = store_.holds();
    left_open_ = {open.begin(), open.end()};
    unclaimed_ = left_open_;
    unclaimed_->insert(holds.begin(), holds.end());
  }
  for (auto at = unclaimed_->begin(); at != unclaimed_->end();) {
    const JobId id = *at;
    const bool claimed = jobs_.contains(id);
    if (!claimed && slurm.alive(id) != nullptr) {
      ++at;
      continue;
    }
    if (!claimed) {
      store_.end(id, -1, slurm.time);
      spdlog::info("job {}: ended while no launcher of it was registered", id);
    }
    left_open_.erase(id);
    at = unclaimed_->erase(at);
  }
}

void Planner::hold(JobId id, bool held) {
  view_.reset();
  store_.hold(id, held);
  const auto found = jobs_.find(id);
  if (found != jobs_.end()) found->second.job.held = held;
  const SlurmJob* const job = last_ ? last_->alive(id) : nullptr;
  log_.line(job != nullptr ? job->uid : 0, spdlog::level::info, "job {}: {}", id,
            held ? "held: it will not grow" : "released: it may grow");
  if (!held && found != jobs_.end()) think_for(found->second.job.uid, Trigger::user);
}

}  // namespace espalier
