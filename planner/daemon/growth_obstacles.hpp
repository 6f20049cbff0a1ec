// Explains why a job does not grow now, for `espalier explain`. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/daemon/live_job.hpp"
#include "planner/daemon/planner.hpp"

namespace espalier {

// One sentence per obstacle; empty when there is none. `weighed`: the scheduler's last view of the
// job, or null.
std::vector<std::string> growth_obstacles(const LiveJob& live, const std::optional<SlurmSnapshot>& slurm,
                                          const Weighed* weighed, const PlannerSettings& settings, double now);

}  // namespace espalier
