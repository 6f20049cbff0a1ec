// The planner's work for movable jobs: replacing a base by another one, because a user asks or a job waits for room.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/core/schedule/hindered.hpp"
#include "planner/core/schedule/smaller_base.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/planner.hpp"
#include "planner/daemon/planning_input.hpp"
#include "planner/daemon/printable.hpp"
#include "planner/daemon/private_jobs.hpp"
#include "planner/daemon/room.hpp"

namespace espalier {
namespace {

// Jobs in one decision for which smaller bases are looked for, which bounds its latency; and seconds until such a job
// is looked at again.
constexpr std::size_t kMostSmaller = 16;
constexpr double kLookAgain = 2;
// A job has one base, a second one while it moves, and perhaps some that are being given back.
constexpr std::size_t kMostBases = 8, kMostTypes = 16, kLongestType = 63;

}  // namespace

void Planner::bases(const wire::BasesHeld& message) {
  const auto found = jobs_.find(message.job);
  if (found == jobs_.end()) return;
  if (message.bases.size() > kMostBases || message.types.size() > kMostTypes)
    throw Error("job " + std::to_string(message.job) + ": names too many bases or GPU types");
  for (const std::string& type : message.types)
    if (type.size() > kLongestType || printable(type) != type)
      throw Error("job " + std::to_string(message.job) + ": names a GPU type that is too long or not plain text");
  LiveJob& live = found->second;
  if (!std::exchange(live.movable, true)) live.moves = stored_moves(store_, message.job, clock_seconds());
  live.bases = message.bases;
  live.types = message.types;
  live.base_waits = message.waits;
}

// The base of a job that has none yet; nullptr: there is none such.
const SlurmJob* Planner::waiting_base(const LiveJob& live) const {
  if (!last_ || live.open || !live.job.anchor.empty()) return nullptr;
  for (const JobId id : live.bases) {
    const SlurmJob* const base = last_->alive(id);
    if (base != nullptr && base->uid == live.job.uid && base->state == SlurmJobState::pending &&
        submitted_of_base(base->comment) == live.job.id)
      return base;
  }
  return nullptr;
}

std::int64_t Planner::migrate(JobId id, const MoveWish& wish) {
  const std::string name = "job " + std::to_string(id);
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || !found->second.link) throw Error(name + ": has no connected launcher");
  LiveJob& live = found->second;
  if (!live.movable)
    throw Error(name +
                ": is not movable: its GPUs are those of the submitted job; submit it with "
                "--elastic=MIN:MAX,movable");
  if (settings_.shadow) throw Error(name + ": the planner runs with --shadow and acts on nothing");
  if (live.job.held) throw Error(name + ": is held; `espalier release " + std::to_string(id) + "` lets it move");
  if (const SlurmJob* const waits = waiting_base(live)) {
    try {
      const auto nodes = nodes_to_wait_for(waits->wanted_gpus, wish, reach_of(live, last_, waits->id), last_->cluster);
      live.link->send(wire::SteerBase{id, waits->id, fold_hosts(nodes)});
    } catch (const Error& error) {
      throw Error(name + ": cannot wait there: " + error.what());
    }
    return 0;
  }
  if (live.job.phase != JobPhase::running || live.open || !live.job.plan)
    throw Error(name + ": is being reconfigured or does not train yet; try again when its phase is running");
  if (live.bases.size() > 1 && live.moves.empty())
    throw Error(name + ": waits for a base of more GPUs, and moves there when Slurm grants it");
  if (live.bases.size() > 1) throw Error(name + ": still holds the base that it left; try again in a minute");
  if (!last_ || !site_) throw Error(name + ": Slurm has not answered yet; try again");
  if (is_suspended(live.job, *last_))
    throw Error(name + ": Slurm has suspended it, its base or an extension of it; try again after `scontrol resume`");
  const double now = clock_seconds();
  if (moves_within_hour(live, now) >= kMostMoves)
    throw Error(name + ": has been moved " + std::to_string(kMostMoves) + " times within an hour, which is the limit");
  const auto input = make_input(*last_, jobs_, Trigger::user,
                                {settings_.max_gpus, settings_.partition, site_, &submissions_.arrivals()});
  const ElasticJob job = confirmed(live.job, *last_, settings_.max_gpus);
  std::vector<ExtensionRequest> base;
  try {
    base = place_for(job, wish, reach_of(live, last_), input.cluster);
    const std::string kept = kept_type(job, input.cluster);
    for (const ExtensionRequest& part : base)
      if (const NodeView* node = input.cluster.find(part.node); !kept.empty() && node->gpu_type != kept)
        throw Error("accuracy=bitwise keeps it on GPUs of type " + kept + ", as those of type " + node->gpu_type +
                    " may round differently; a job with accuracy=relaxed may change its type");
  } catch (const Error& error) {
    throw Error(name + ": cannot move: " + error.what());
  }
  auto decision = move_to(live, job, base, input.cluster, *site_);
  if (!decision) throw Error(name + ": has no valid plan on those GPUs");
  decision->trigger = Trigger::user;
  decision->reason = "a user asked to move its base to " + nodes_of(base);
  propose_move(live, std::move(*decision), {{"decided", now}});
  return live.open ? live.open->decision.id : 0;
}

void Planner::propose_move(LiveJob& live, Decision decision, std::map<std::string, double> moments) {
  DecisionRecord record;
  record.decision = std::move(decision);
  record.decision.time = clock_seconds();
  record.moments = std::move(moments);
  if (!settings_.shadow) live.moves.push_back(record.decision.time);
  live.waited_before = {live.bases.begin(), live.bases.end()};
  if (last_)
    for (const WaitingJob& job : last_->cluster.waiting) live.waited_before.insert(job.id);
  propose(live, std::move(record));
}

void Planner::withdraw_bases(const SlurmSnapshot& slurm) {
  for (auto& [id, live] : jobs_) {
    if (!live.open || !live.link || !moves_base(live.open->decision)) continue;
    live.waited_before.insert(live.bases.begin(), live.bases.end());  // the second base may wait for a moment
    for (const JobId base : live.bases) {
      const SlurmJob* const second = live.before.contains(base) ? nullptr : slurm.alive(base);
      if (second == nullptr || second->uid != live.job.uid || second->state != SlurmJobState::running) continue;
      const JobId waits = hindered_by(base, live.waited_before, slurm.cluster);
      if (waits == 0) continue;
      live.waited_before.insert(waits);  // told once
      const std::string why = without_jobs_of_others(
          "job " + std::to_string(waits) + " began to wait and can use the GPUs of the second base", slurm,
          live.job.uid);
      spdlog::info("decision {}: job {}: its second base {} is withdrawn: job {} began to wait", live.open->decision.id,
                   id, base, waits);
      live.link->send(wire::WithdrawBase{id, live.open->decision.id, why});
    }
  }
}

void Planner::start_smaller(PlanningInput& input, const std::map<std::string, double>& moments) {
  std::size_t looks = 0;
  std::optional<WaitingPlan> served;
  for (auto& [id, live] : jobs_) {
    const ElasticJob& job = live.job;
    if (live.base_waits == 0 || !live.link || live.open || job.held || job.phase != JobPhase::launching ||
        !job.anchor.empty() || input.now < live.smaller_not_before || is_suspended(job, *last_))
      continue;
    const SlurmJob* const waits = last_->alive(live.base_waits);
    if (waits == nullptr || waits->uid != job.uid || submitted_of_base(waits->comment) != id ||
        waits->state != SlurmJobState::pending || input.now - waits->submitted < kLeftToSlurmSeconds)
      continue;
    if (++looks > kMostSmaller) return;
    live.smaller_not_before = input.now + kLookAgain;  // others have their turn
    if (!served) served = serve_waiting(input, settings_.scheduler);
    if (gets_room(waits->id, input.cluster, *served)) {
      spdlog::debug("job {}: no smaller base: extensions give GPUs back for base {}", id, waits->id);
      continue;
    }
    DecisionRecord record;
    Decision& decision = record.decision;
    try {
      decision.acquire = smaller_base(
          {waits->id, std::max(1, job.min_gpus), job.accuracy == Accuracy::bitwise, live.types}, input.cluster);
    } catch (const Error& error) {
      spdlog::debug("job {}: no smaller base: {}", id, error.what());
      continue;
    }
    decision.time = clock_seconds();
    decision.trigger = input.trigger;
    decision.kind = DecisionKind::start;
    decision.job = id;
    int gpus = 0;
    for (const ExtensionRequest& part : decision.acquire) gpus += part.gpus;
    decision.reason = "starts on " + std::to_string(gpus) + " idle GPUs of " + nodes_of(decision.acquire) +
                      " while base " + std::to_string(waits->id) + " of " + std::to_string(waits->wanted_gpus) +
                      " waits";
    record.moments = moments;
    record.moments["decided"] = decision.time;
    input.cluster = without_taken(std::move(input.cluster), {decision});
    propose(live, std::move(record));
  }
}

// Policy `arena` switches types itself; beside it bases move within their types only.
std::optional<Decision> Planner::find_move(const Deciding& from, BetterPlaces& places,
                                           std::vector<Decision>& decisions) {
  const auto at = std::find_if(decisions.begin(), decisions.end(), moves_base);
  if (at != decisions.end()) {
    Decision move = std::move(*at);
    decisions.erase(at);
    return move;
  }
  const auto& settings = *from.settings;
  return places.find(from.input, settings.scheduler, settings.migrate_gain,
                     settings.scheduler.arena ? within_their_types(from.movable, from.input) : from.movable, decisions);
}

void Planner::make_room(PlanningInput& input, std::map<std::string, double> moments) {
  const auto room = find_room(input, jobs_, last_, settings_.scheduler, *site_);
  if (!room) return;
  if (room->move) {
    moments["decided"] = clock_seconds();
    propose_move(jobs_.at(room->move->job), *room->move, std::move(moments));
  }
  keep_room(input, *room);
}

}  // namespace espalier
