// Whether a decision still fits. A decision is made on a thread of its own, from what was known when it began;
// meanwhile launchers report, users ask, and other changes are proposed. Pure.
#pragma once

#include <map>
#include <set>
#include <string>

#include "planner/core/scheduler.hpp"
#include "planner/daemon/live_job.hpp"
#include "planner/daemon/slurm.hpp"

namespace espalier {

// The nodes whose GPUs were promised by open decisions since that time, seconds since the epoch.
std::set<std::string> promised_since(const std::map<JobId, LiveJob>& jobs, double since);

// Why `decision` is out of date; empty: it is not. `input`: what it was made from. `jobs`: as they are now. `slurm`: of
// `input`. `max_gpus`: the site's limit of a job. `promised`: nodes whose GPUs were promised meanwhile.
std::string out_of_date(const Decision& decision, const PlanningInput& input, const std::map<JobId, LiveJob>& jobs,
                        const SlurmSnapshot& slurm, int max_gpus, const std::set<std::string>& promised);

}  // namespace espalier
