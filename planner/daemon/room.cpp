#include "planner/daemon/room.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "planner/core/hostlist.hpp"
#include "planner/core/schedule/move.hpp"

namespace espalier {
namespace {

constexpr double kHour = 3600;
// A job that says for longer than this that it has two bases does not keep the planner from moving others.
constexpr double kMoveTakes = 180;
constexpr int kMostLookedAt = 500;  // of a job's decisions, the newest

}  // namespace

std::size_t moves_within_hour(LiveJob& live, double now) {
  std::erase_if(live.moves, [&](double time) { return now - time >= kHour; });
  return live.moves.size();
}

std::vector<double> stored_moves(StoreReader& store, JobId job, double now) {
  std::vector<double> moves;
  DecisionQuery query;
  query.job = job;
  query.limit = kMostLookedAt;
  query.candidates = false;
  for (const DecisionRecord& record : store.decisions(query).records)
    if (const Decision& made = record.decision; moves_base(made) && made.outcome != "shadow" && now - made.time < kHour)
      moves.push_back(std::min(made.time, now));  // the clock may have been set back since
  std::reverse(moves.begin(), moves.end());
  return moves;
}

std::string nodes_of(const std::vector<ExtensionRequest>& base) {
  std::vector<std::string> nodes;
  for (const ExtensionRequest& request : base) nodes.push_back(request.node);
  return fold_hosts(nodes);
}

std::optional<Decision> move_to(const LiveJob& live, const ElasticJob& job, const std::vector<ExtensionRequest>& base,
                                const ClusterView& cluster, const Site& site) {
  const PlanningBasis basis{site, live.profiles.coefficients(site)};
  auto plan = plan_after_move(job, base, cluster, &basis);
  if (!plan) return std::nullopt;
  Decision decision;
  decision.kind = DecisionKind::migrate;
  decision.job = job.id;
  decision.acquire = base;
  decision.plan = std::move(*plan);
  return decision;
}

Reach reach_of(const LiveJob& live, const std::shared_ptr<const SlurmSnapshot>& slurm, JobId waits) {
  Reach reach{live.types, {}};
  const SlurmJob* const base = slurm ? slurm->alive(waits != 0 ? waits : base_of(live.job)) : nullptr;
  if (base == nullptr || base->uid != live.job.uid) return reach;
  const auto partition = slurm->partitions.find(base->partition);
  if (partition == slurm->partitions.end()) return reach;
  reach.nodes = {slurm, &partition->second};
  const auto reservation = slurm->reservations.find(base->reservation);
  if (base->reservation.empty() || reservation == slurm->reservations.end()) return reach;
  std::set<std::string> both;
  std::set_intersection(partition->second.begin(), partition->second.end(), reservation->second.nodes.begin(),
                        reservation->second.nodes.end(), std::inserter(both, both.end()));
  reach.nodes = std::make_shared<const std::set<std::string>>(std::move(both));
  return reach;
}

std::optional<std::vector<MovableJob>> movable_now(std::map<JobId, LiveJob>& jobs,
                                                   const std::shared_ptr<const SlurmSnapshot>& slurm, double now,
                                                   double rest) {
  for (const auto& [id, live] : jobs)
    if ((live.open && moves_base(live.open->decision)) ||
        (live.bases.size() > 1 && !live.moves.empty() && now - live.moves.back() < kMoveTakes))
      return std::nullopt;
  std::vector<MovableJob> movable;
  for (auto& [id, live] : jobs)
    if (live.movable && live.link && !live.job.held && !live.open && live.not_before <= now &&
        live.move_not_before <= now && live.bases.size() == 1 && moves_within_hour(live, now) < kMostMoves &&
        (live.moves.empty() || now - live.moves.back() >= rest))
      movable.push_back({id, reach_of(live, slurm)});
  return movable;
}

std::optional<Room> find_room(const PlanningInput& input, std::map<JobId, LiveJob>& jobs,
                              const std::shared_ptr<const SlurmSnapshot>& slurm, const SchedulerOptions& options,
                              const Site& site) {
  if (input.cluster.waiting.empty()) return std::nullopt;
  const auto movable = movable_now(jobs, slurm, input.now, 0);
  if (!movable) return std::nullopt;
  auto relief = find_relief(input, options, *movable);
  if (!relief) return std::nullopt;
  Room room{std::move(*relief), std::nullopt};
  if (room.relief.held > 0) return room;
  const auto at = std::find_if(input.jobs.begin(), input.jobs.end(),
                               [&](const ElasticJob& job) { return job.id == room.relief.job; });
  room.move = move_to(jobs.at(at->id), *at, room.relief.base, input.cluster, site);
  if (!room.move) return std::nullopt;
  room.move->trigger = input.trigger;
  room.move->reason = "job " + std::to_string(room.relief.waiting) + " waits for room on " + room.relief.node +
                      ", which its base leaves for " + nodes_of(room.relief.base);
  return room;
}

void keep_room(PlanningInput& input, const Room& room) {
  if (room.move) std::erase_if(input.jobs, [&](const ElasticJob& job) { return job.id == room.move->job; });
  WaitingJob place;
  place.id = room.relief.waiting;
  place.nodes = static_cast<int>(room.relief.base.size());
  place.gpus = place.nodes * room.relief.base.front().gpus;
  std::vector<std::string> nodes;
  for (const ExtensionRequest& request : room.relief.base) nodes.push_back(request.node);
  place.only_nodes = std::move(nodes);
  place.priority = std::numeric_limits<double>::infinity();
  input.cluster.waiting.push_back(std::move(place));
}

}  // namespace espalier
