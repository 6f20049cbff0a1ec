// Where a movable job would train faster (Arena §3.5, switches of types; Suika §3.2.3, migration): on idle GPUs of
// another type, or of its own type on fewer nodes. Waiting jobs and growth come first: this looks at what they leave.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/schedule/defragment.hpp"

namespace espalier {

struct BetterPlace {
  JobId job = 0;
  std::vector<ExtensionRequest> base;  // the parts of the second base, without leases, sorted by node
  std::string present_type, type;      // of the base's GPUs now, and there
  int present_nodes = 0;               // of the base now
  double present_ms = 0, next_ms = 0;  // predicted step times: of the present plan, and at rest in the new place
  double saved_gpu_seconds = 0;        // what the rest of the training takes less, times the base's GPUs
  Plan plan;                           // right after the move (plan_after_move)
};

// "h100 GPUs on n3 train it 1.8 times as fast as its a100".
std::string describe(const BetterPlace& place);

// The move as a decision of kind migrate. `job`: the place's.
Decision decision_of(const BetterPlace& place, const PlanningInput& input, const ElasticJob& job);

// The move of one job to GPUs of `type`, under the conditions of BetterPlaces::find_place(). nullopt: it may not be, or
// is not worth it.
std::optional<BetterPlace> place_on_type(const PlanningInput& input, const SchedulerOptions& options, double least_gain,
                                         const MovableJob& movable, const std::string& type,
                                         const std::vector<Decision>& decided);

// The same jobs, each kept to the type of its present base.
std::vector<MovableJob> within_their_types(std::vector<MovableJob> movable, const PlanningInput& input);

// Remembers only when it looked at which job, so that each gets its turn. Not thread-safe.
class BetterPlaces {
 public:
  // The move that saves the most GPU-seconds; nullopt: none is worth it. A move must
  // - make a step at least `least_gain` times as fast, also with the worst of what is assumed of the job
  //   (assumed_range.hpp);
  // - win back more training, until the job ends, than the pause and the time for which both bases are held;
  // - take GPUs that are idle, that no decision in `decided` takes, and that no waiting job could use.
  // A job that keeps_gpu_type() (gpu_type.hpp), or was not measured on its present type yet, moves inside its type
  // only. Jobs of `decided` are left alone. `movable` is sorted by job. At most 8 jobs, those that have waited longest
  // for a look, are looked at. Cost: O(nodes + movable jobs x types), and for each of the 8 a search on its GPUs for
  // each type.
  std::optional<BetterPlace> find_place(const PlanningInput& input, const SchedulerOptions& options, double least_gain,
                                        const std::vector<MovableJob>& movable, const std::vector<Decision>& decided);
  // The same as a decision.
  std::optional<Decision> find(const PlanningInput& input, const SchedulerOptions& options, double least_gain,
                               const std::vector<MovableJob>& movable, const std::vector<Decision>& decided);

 private:
  std::map<JobId, double> looked_;  // PlanningInput::now of the last look
};

// The cluster without the idle GPUs that the decisions take.
ClusterView without_taken(ClusterView cluster, const std::vector<Decision>& decided);

}  // namespace espalier
