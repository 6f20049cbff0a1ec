// The planner's work for movable jobs: replacing a base by another one, because a user asks or a job waits for room.
#include <algorithm>
#include <limits>

#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/core/schedule/defragment.hpp"
#include "planner/core/schedule/planning_basis.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/planner.hpp"
#include "planner/daemon/planning_input.hpp"
#include "planner/daemon/printable.hpp"

namespace espalier {
namespace {

constexpr double kHour = 3600;
constexpr std::size_t kMostMoves = 6;  // of one job within an hour
// A job that says for longer than this that it has two bases does not keep the planner from moving others.
constexpr double kMoveTakes = 180;

// A job has one base, a second one while it moves, and perhaps some that are being given back.
constexpr std::size_t kMostBases = 8, kMostTypes = 16, kLongestType = 63;

std::size_t moves_within_hour(LiveJob& live, double now) {
  std::erase_if(live.moves, [&](double time) { return now - time >= kHour; });
  return live.moves.size();
}

std::string nodes_of(const std::vector<ExtensionRequest>& base) {
  std::vector<std::string> nodes;
  for (const ExtensionRequest& request : base) nodes.push_back(request.node);
  return fold_hosts(nodes);
}

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
  live.movable = true;
  live.bases = message.bases;
  live.types = message.types;
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
  if (live.job.phase != JobPhase::running || live.open || !live.job.plan)
    throw Error(name + ": is being reconfigured or does not train yet; try again when its phase is running");
  if (live.bases.size() > 1) throw Error(name + ": still holds the base that it left; try again in a minute");
  if (!last_ || !site_) throw Error(name + ": Slurm has not answered yet; try again");
  const double now = clock_seconds();
  if (moves_within_hour(live, now) >= kMostMoves)
    throw Error(name + ": has been moved " + std::to_string(kMostMoves) + " times within an hour, which is the limit");
  const auto input = make_input(*last_, jobs_, Trigger::user,
                                {settings_.max_gpus, settings_.partition, site_, &submissions_.arrivals()});
  const ElasticJob job = confirmed(live.job, *last_, settings_.max_gpus);
  std::vector<ExtensionRequest> base;
  try {
    base = place_for(job, wish, live.types, input.cluster);
  } catch (const Error& error) {
    throw Error(name + ": cannot move: " + error.what());
  }
  DecisionRecord record;
  record.decision.trigger = Trigger::user;
  record.decision.reason = "a user asked to move its base to " + nodes_of(base);
  record.moments["decided"] = now;
  if (!propose_move(live, job, base, input, std::move(record))) throw Error(name + ": has no valid plan on those GPUs");
  return live.open ? live.open->decision.id : 0;
}

bool Planner::propose_move(LiveJob& live, const ElasticJob& job, const std::vector<ExtensionRequest>& base,
                           const PlanningInput& input, DecisionRecord record) {
  const PlanningBasis basis{*site_, live.profiles.coefficients(*site_)};
  const auto plan = plan_after_move(job, base, input.cluster, &basis);
  if (!plan) return false;
  Decision& decision = record.decision;
  decision.acquire = base;
  decision.plan = *plan;
  decision.time = clock_seconds();
  decision.kind = DecisionKind::migrate;
  decision.job = live.job.id;
  if (!settings_.shadow) live.moves.push_back(decision.time);
  propose(live, std::move(record));
  return true;
}

void Planner::make_room(PlanningInput& input, const std::map<std::string, double>& moments) {
  if (input.cluster.waiting.empty()) return;
  // One move at a time: only its end shows whether another one is needed.
  for (const auto& [id, live] : jobs_)
    if ((live.open && moves_base(live.open->decision)) ||
        (live.bases.size() > 1 && !live.moves.empty() && input.now - live.moves.back() < kMoveTakes))
      return;
  std::vector<MovableJob> movable;
  for (auto& [id, live] : jobs_)
    if (live.movable && live.link && !live.job.held && !live.open && live.bases.size() == 1 &&
        moves_within_hour(live, input.now) < kMostMoves)
      movable.push_back({id, live.types});
  const auto relief = find_relief(input, settings_.scheduler, movable);
  if (!relief) return;
  if (relief->held == 0) {
    LiveJob& live = jobs_.at(relief->job);
    const auto at = std::find_if(input.jobs.begin(), input.jobs.end(),
                                 [&](const ElasticJob& job) { return job.id == relief->job; });
    DecisionRecord record;
    record.moments = moments;
    record.moments["decided"] = clock_seconds();
    record.decision.trigger = input.trigger;
    record.decision.reason = "job " + std::to_string(relief->waiting) + " waits for room on " + relief->node +
                             ", which its base leaves for " + nodes_of(relief->base);
    if (!propose_move(live, *at, relief->base, input, std::move(record))) return;
    input.jobs.erase(at);
  }
  // Nobody else gets the GPUs of the second base, and extensions there are given back for it.
  WaitingJob place;
  place.id = relief->waiting;
  place.nodes = static_cast<int>(relief->base.size());
  place.gpus = place.nodes * relief->base.front().gpus;
  for (const ExtensionRequest& request : relief->base) place.only_nodes.push_back(request.node);
  place.priority = std::numeric_limits<double>::infinity();
  input.cluster.waiting.push_back(std::move(place));
}

}  // namespace espalier
