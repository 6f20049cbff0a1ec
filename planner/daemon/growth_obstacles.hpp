// Explains why a job does not grow now, for `espalier explain`. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/daemon/live_job.hpp"
#include "planner/daemon/planner.hpp"

namespace espalier {

// One sentence per obstacle; empty when there is none. `jobs`: those of the planner, of which only those with an open
// decision count. `slurm` and `weighed`, the scheduler's last view of the job, may be null.
std::vector<std::string> growth_obstacles(const JobView& live, const std::map<JobId, LiveJob>& jobs,
                                          const SlurmSnapshot* slurm, const Weighed* weighed,
                                          const PlannerSettings& settings, double now);

}  // namespace espalier
