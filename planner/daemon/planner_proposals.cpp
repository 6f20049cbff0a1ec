// A decision on its way: it is stored, proposed to the launcher, and ends with an outcome or at a time limit.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "planner/core/schedule/move.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/planner.hpp"
#include "planner/wire/grant_message.hpp"

namespace espalier {

void Planner::propose(LiveJob& live, DecisionRecord record) {
  Decision& decision = record.decision;
  record.uid = live.job.uid;
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
  if (observer_ != nullptr) observer_->decided(record);
  live.open = std::move(record);
  store_.update(*live.open);  // last, because the proposal is already under way if the store fails
}

void Planner::give_grants(const LiveJob& live, const Decision& decision) const {
  // A second base goes into the user's own partition.
  if (!settings_.grant || decision.acquire.empty() || moves_base(decision)) return;
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
  spdlog::log(committed ? spdlog::level::info : spdlog::level::warn, "decision {}: job {}: {}", decision.id,
              decision.job, decision.outcome);
  if (decision.kind != DecisionKind::start) {  // a start is no reconfiguration: nothing has to rest after it
    live.failures = committed ? 0 : std::min(live.failures + 1, 6);
    live.last_change = now;
    // Each failure in a row doubles the wait until the next try. A growth also waits for the
    // cooldown.
    const double base = decision.kind == DecisionKind::grow ? std::max(1.0, settings_.scheduler.cooldown_seconds) : 0.5;
    live.not_before = committed ? 0 : now + base * (1 << (live.failures - 1));
  }
  if (live.open && live.open->decision.id == decision.id) live.open.reset();
  if (!committed) return;
  learn_change(live, record);
  live.measured = std::move(record);
  note_pause(live);
}

}  // namespace espalier
