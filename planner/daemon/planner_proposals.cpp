// A decision on its way: it is stored, proposed to the launcher, and ends with an outcome or at a time limit.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "planner/core/error.hpp"
#include "planner/core/schedule/move.hpp"
#include "planner/core/schedule/smaller_base.hpp"
#include "planner/daemon/account_limits.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/decision_check.hpp"
#include "planner/daemon/objective_weights.hpp"
#include "planner/daemon/planner.hpp"
#include "planner/daemon/private_jobs.hpp"
#include "planner/daemon/room.hpp"
#include "planner/daemon/share_words.hpp"
#include "planner/wire/grant_message.hpp"

namespace espalier {
namespace {

constexpr double kSmallerRests = 15;  // seconds after a smaller base that did not start; doubled each time
// Seconds after a move that was dropped: what made it stale may last, and one move is made at a time, so that the base
// of another job gets its turn.
constexpr double kDroppedMoveRests = 30;

}  // namespace

// The jobs and the settings may have changed since the decision began. Slurm has not been asked since.
void Planner::apply(const Deciding& from, const Decided& result) {
  if (!result.failure.empty()) throw Error(result.failure);
  weighed_ = result.weighed;
  view_.reset();
  auto moments = from.moments;
  moments["decided"] = clock_seconds();
  if (submitted_at_ == from.submitted_at && (!soon_ || !result.decisions.empty())) submitted_at_.reset();
  const SlurmSnapshot& slurm = *last_;
  // Jobs of one account share its limit: the next decision is for those that find no room now.
  AccountLimits limits(slurm, jobs_, settings_.rules.share, settings_.partition);
  const ShareNodes shares(slurm, settings_.rules.share);
  const auto promised = promised_since(jobs_, from.began);
  for (const Decision& decision : result.decisions) {
    const std::string why = from.settings == settings_now_
                                ? out_of_date(decision, from.input, jobs_, slurm, settings_.max_gpus, promised)
                                : "the settings have been read again";
    if (!why.empty()) {
      drop(decision, from, why);
      continue;
    }
    LiveJob& live = jobs_.at(decision.job);
    const SlurmJob* anchor = slurm.alive(decision.job);
    if (anchor != nullptr && !limits.take(*anchor, decision)) continue;
    DecisionRecord record;
    record.decision = decision;
    if (anchor != nullptr) {
      record.decision.reason += share_reason(decision, *anchor, shares, settings_.rules.share);
      if (!decision.acquire.empty())
        record.decision.reason += weight_reason(objective_weights(*anchor, slurm, settings_.scheduler.objective));
    }
    record.moments = moments;
    try {
      propose(live, std::move(record));
    } catch (const Error& error) {  // e.g. the store is full: try the others
      spdlog::error("job {}: {}: {}", decision.job, to_string(decision.kind), error.what());
    }
  }
  apply_trial(from, result);
  if (!result.move) return;
  const Decision& move = *result.move;
  std::string why = out_of_date(move, from.input, jobs_, slurm, settings_.max_gpus, promised);
  if (from.settings != settings_now_) why = "the settings have been read again";
  const auto movable = movable_now(jobs_, last_, from.input.now, kRestAfterMove);
  if (why.empty() && !(movable && std::any_of(movable->begin(), movable->end(),
                                              [&](const MovableJob& one) { return one.id == move.job; })))
    why = "another base moves, or this one may not any more";
  if (!why.empty()) return drop(move, from, why);
  propose_move(jobs_.at(move.job), move, std::move(moments));
}

// It is decided anew at once, from what is known then.
void Planner::drop(const Decision& decision, const Deciding& from, const std::string& why) {
  spdlog::info("job {}: {} dropped: {}", decision.job, to_string(decision.kind), why);
  const auto live = jobs_.find(decision.job);
  const double now = clock_seconds();
  if (live != jobs_.end() && moves_base(decision)) live->second.move_not_before = now + kDroppedMoveRests;
  // What a launcher reports may have made it stale, and must not keep the planner asking without end.
  if (live == jobs_.end()) think(from.trigger);
  else think_for(live->second.job.uid, from.trigger);
  if (live == jobs_.end() || !may_write(live->second, now)) return;
  DecisionRecord record;
  record.decision = decision;
  record.decision.outcome = "dropped: " + why;
  record.uid = live->second.job.uid;
  if (last_) record.decision.reason = without_jobs_of_others(decision.reason, *last_, record.uid);
  record.moments = from.moments;
  record.moments["decided"] = record.moments["finished"] = now;
  try {
    store_.add(record);
    charge_writes(live->second, now);
  } catch (const Error& error) {
    spdlog::error("job {}: {}", decision.job, error.what());
  }
}

void Planner::propose(LiveJob& live, DecisionRecord record) {
  view_.reset();
  Decision& decision = record.decision;
  record.uid = live.job.uid;
  if (last_) decision.reason = without_jobs_of_others(decision.reason, *last_, record.uid);
  if (settings_.shadow) {
    // The same decision on the next poll is not recorded again.
    const std::string thought =
        to_string(decision.kind) + Json(decision.acquire).dump() + Json(decision.release).dump();
    if (live.shadowed == thought) return;
    live.shadowed = thought;
    decision.outcome = "shadow";
    decision.id = store_.add(record);
    if (observer_ != nullptr) observer_->decided(record);
    spdlog::info("decision {} (shadow): job {}: {}: {}", decision.id, decision.job, to_string(decision.kind),
                 decision.reason);
    return;
  }
  decision.id = store_.add(record);  // stored first: a restart must know it
  tell_known(live, decision.acquire);
  Decision told = decision;
  told.candidates.clear();  // candidates may be large, and the launcher does not need them
  give_grants(live, decision);
  live.link->send(wire::Propose{std::move(told)});
  record.moments["proposed"] = clock_seconds();
  spdlog::info("decision {}: job {}: {}: {}", decision.id, decision.job, to_string(decision.kind), decision.reason);
  live.proposed_to = live.job.generation;
  live.back_since = false;
  live.before.clear();
  for (const Holding& held : live.job.extensions) live.before.insert(held.job);
  live.before.insert(live.bases.begin(), live.bases.end());
  live.measured.reset();
  if (decision.kind == DecisionKind::grow) live.before_growth = before_growth(live.job, decision.id);
  else if (!replans(decision)) live.before_growth.reset();
  if (observer_ != nullptr) observer_->decided(record);
  live.open = std::move(record);
  store_.update(*live.open);  // last, because the proposal is already under way if the store fails
}

void Planner::give_grants(const LiveJob& live, const Decision& decision) const {
  // A second base goes into the user's own partition.
  if (!settings_.grant || decision.acquire.empty() || moves_base(decision) || starts_smaller(decision)) return;
  wire::Grants grants{decision.id, {}};
  for (const ExtensionRequest& request : decision.acquire)
    grants.grants.push_back(settings_.grant(live.job.uid, decision.job, request));
  live.link->send(grants);
}

void Planner::close_overdue(double now) {
  for (auto& [id, live] : jobs_) {
    if (!live.open) continue;
    // The launcher has time limits of its own. The time added here is bounded, since only the
    // launcher says that it is at a boundary.
    const JobPhase phase = live.job.phase;
    const bool at_a_boundary = live.link && (phase == JobPhase::ready || phase == JobPhase::switching ||
                                             phase == JobPhase::saving || phase == JobPhase::restarting);
    const double limit = settings_.outcome_seconds + (at_a_boundary ? settings_.boundary_seconds : 0);
    if (now - live.open->decision.time < limit) continue;
    DecisionRecord record = *live.open;
    record.decision.outcome = "aborted: no outcome within " + std::to_string(std::lround(limit)) + " s";
    finish(live, std::move(record), now);
  }
}

// Ends a decision, whatever its outcome.
void Planner::finish(LiveJob& live, DecisionRecord record, double now) {
  record.moments["finished"] = now;
  if (observer_ != nullptr) observer_->finished(record);
  store_.update(record);
  const Decision& decision = record.decision;
  const bool committed = decision.outcome == "committed";
  log_.line(live.job.uid, committed ? spdlog::level::info : spdlog::level::warn, "decision {}: job {}: {}", decision.id,
            decision.job, decision.outcome);
  if (decision.kind != DecisionKind::start) {  // a start is no reconfiguration: nothing has to rest after it
    live.failures = committed ? 0 : std::min(live.failures + 1, 6);
    live.last_change = now;
    // Each failure in a row doubles the wait until the next try. A growth also waits for the
    // cooldown.
    const double base = decision.kind == DecisionKind::grow ? std::max(1.0, settings_.scheduler.cooldown_seconds) : 0.5;
    live.not_before = committed ? 0 : now + base * (1 << (live.failures - 1));
    live.failed_to_shrink = !committed && decision.kind == DecisionKind::shrink;
  }
  if (starts_smaller(decision)) {
    live.smaller_failures = committed ? 0 : std::min(live.smaller_failures + 1, 6);
    live.smaller_not_before = committed ? 0 : now + kSmallerRests * (1 << (live.smaller_failures - 1));
  }
  const bool trained = committed && !starts_smaller(decision);
  if (live.open && live.open->decision.id == decision.id) live.open.reset();
  if (!trained) return;
  learn_change(live, record);
  if (decision.kind != DecisionKind::grow && !replans(decision)) live.before_growth.reset();
  live.measured = std::move(record);
  note_pause(live);
}

}  // namespace espalier
