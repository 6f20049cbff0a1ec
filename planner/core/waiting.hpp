// Waiting jobs come first: what they will take, what must be given back to them, and what is left for growth.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/core/affinity.hpp"
#include "planner/core/scheduler.hpp"

namespace espalier {

// What one elastic job should give back, and for whom.
struct Reclaim {
  std::vector<JobId> extensions;  // sorted
  std::vector<JobId> waiting;     // in the order they were served
};

struct WaitingPlan {
  std::vector<Supply> supplies;       // one per usable node, without what waiting jobs will take
  std::map<JobId, Reclaim> reclaims;  // by elastic job
};

// Serves the waiting jobs in the order of their priority, then of their ids. A job that fits on idle GPUs (and those
// about to be idle) gets them reserved; one that fits only with GPUs that extensions hold makes those go whose loss
// costs least: of a node's extensions the set with the lowest sum of marginal benefit times GPUs (`worth`, by
// extension; absent: the last), of equal ones the fewest, unless Slurm is about to choose itself (`left_to_slurm`);
// `as_printed`: the lowest marginal benefit first (Suika §3.2.3). One that does not fit leaves its nodes to leases that
// end before its expected start. Anchors are never touched: Slurm cannot move a running job, so all defragmentation
// there is (Suika §3.2.3) is that extensions go from where a job needs room and grow again elsewhere.
WaitingPlan serve_waiting(const PlanningInput& input, const SchedulerOptions& options,
                          const std::map<JobId, double>& worth = {});

// Longest lease, in whole minutes, that is over KillWait + 60 s before `start`; below 1: none. Capped by the site's.
int lease_before(double now, double start, const SchedulerOptions& options);

}  // namespace espalier
