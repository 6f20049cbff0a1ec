// Why a job does not grow right now, for `espalier explain`. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/daemon/live_job.hpp"
#include "planner/daemon/planner.hpp"

namespace espalier {

// One sentence each; empty when nothing stands in the way. `weighed`: what the scheduler thought of it last, or null.
std::vector<std::string> growth_obstacles(const LiveJob& live, const std::optional<SlurmSnapshot>& slurm,
                                          const Weighed* weighed, const PlannerSettings& settings, double now);

}  // namespace espalier
