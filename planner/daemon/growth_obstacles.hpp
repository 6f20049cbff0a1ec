// Explains why a job does not grow now, for `espalier explain`. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/daemon/live_job.hpp"
#include "planner/daemon/planner.hpp"

namespace espalier {

// One sentence per obstacle; empty when there is none. `jobs`: all of the planner's. `weighed`: the scheduler's last
// view of the job, or null.
std::vector<std::string> growth_obstacles(const LiveJob& live, const std::map<JobId, LiveJob>& jobs,
                                          const std::optional<SlurmSnapshot>& slurm, const Weighed* weighed,
                                          const PlannerSettings& settings, double now);

}  // namespace espalier
