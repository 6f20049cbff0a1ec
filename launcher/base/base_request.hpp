// What Slurm is asked for when a movable job wants a base.
#pragma once

#include <string>
#include <vector>

#include "launcher/base/base_time.hpp"
#include "launcher/slurm/base_job.hpp"
#include "launcher/slurm/job_context.hpp"

namespace espalier::launcher {

// A base of the movable job, that starts now. `environment`: what a keeper needs to find the launcher. Pure but for a
// nonce and the clock. The other arguments as in BaseJob.
BaseJob base_job(const JobContext& context, const BaseTime& time, const BaseShape& shape, std::vector<std::string> only,
                 std::vector<std::string> environment, bool immediate);

}  // namespace espalier::launcher
