// Decisions on a busy cluster as espalierd takes them (Planner::decide): the scheduler's input is made from Slurm's
// snapshot and the launchers' reports, a base may move to make room for a waiting job, and the scheduler decides.
#pragma once

#include <memory>
#include <vector>

#include "planner/core/scheduler.hpp"
#include "planner/daemon/site_cache.hpp"
#include "tests/bench/planner/busy_cluster.hpp"

namespace espalier::bench {

// A planner that has just started: it knows nothing yet.
class DaemonDecision {
 public:
  explicit DaemonDecision(const SchedulerOptions& options)
      : options_(options), scheduler_(make_scheduler(options)), sites_({}) {}

  // The move of a base, if there is one, comes first. Nothing takes effect.
  std::vector<Decision> decide(BusyCluster& cluster);
  const PlanningInput& input() const { return input_; }  // of the last decision

 private:
  SchedulerOptions options_;
  std::unique_ptr<Scheduler> scheduler_;
  SiteCache sites_;
  PlanningInput input_;
};

}  // namespace espalier::bench
