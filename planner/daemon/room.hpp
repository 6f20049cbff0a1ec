// Room for a waiting job: the base of a movable job moves (schedule/defragment.hpp). The part of a decision that needs
// no connection and no store.
#pragma once

#include <map>
#include <optional>

#include "planner/core/schedule/defragment.hpp"
#include "planner/daemon/live_job.hpp"

namespace espalier {

inline constexpr std::size_t kMostMoves = 6;  // of one job within an hour
// Seconds. A job that has just moved shows first what it gained, before it moves for more speed.
inline constexpr double kRestAfterMove = 600;

// The moves of `live` within the hour before `now` (seconds since the epoch). Older ones are forgotten.
std::size_t moves_within_hour(LiveJob& live, double now);
// When the job's base was to be replaced within that hour, as the store has it, oldest first: an espalierd that was
// started again goes on counting.
std::vector<double> stored_moves(StoreReader& store, JobId job, double now);

struct Room {
  Relief relief;
  // Has job, kind, acquire, plan, trigger and reason. nullopt: extensions hold GPUs of the second base, and leave
  // first.
  std::optional<Decision> move;
};

// The jobs of `jobs` whose base may move now, sorted by job. `rest`: seconds since a job's last move. nullopt: another
// move is under way, and only its end shows whether one more is needed.
std::optional<std::vector<MovableJob>> movable_now(std::map<JobId, LiveJob>& jobs,
                                                   const std::shared_ptr<const SlurmSnapshot>& slurm, double now,
                                                   double rest);
// Where the base of a job may be, by the Slurm job that is its base now, or `waits`. It keeps the snapshot. `slurm`:
// null: any node.
Reach reach_of(const LiveJob& live, const std::shared_ptr<const SlurmSnapshot>& slurm, JobId waits = 0);

// nullopt: no move helps, or there is no valid plan for it, or another move is under way. `jobs` are those of `input`.
std::optional<Room> find_room(const PlanningInput& input, std::map<JobId, LiveJob>& jobs,
                              const std::shared_ptr<const SlurmSnapshot>& slurm, const SchedulerOptions& options,
                              const Site& site);

// For the scheduler: nobody else gets the GPUs of the second base, and extensions there are given back for it. A job
// that moves now is taken out of input.jobs.
void keep_room(PlanningInput& input, const Room& room);

// The change of `job` to a second base. nullopt: no valid plan fits there.
std::optional<Decision> move_to(const LiveJob& live, const ElasticJob& job, const std::vector<ExtensionRequest>& base,
                                const ClusterView& cluster, const Site& site);

// "n[1-2]": where the parts of a base are.
std::string nodes_of(const std::vector<ExtensionRequest>& base);

}  // namespace espalier
