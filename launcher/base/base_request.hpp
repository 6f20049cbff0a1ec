// What Slurm is asked for when a movable job wants a base.
#pragma once

#include <string>
#include <vector>

#include "launcher/slurm/base_job.hpp"
#include "launcher/slurm/job_context.hpp"

namespace espalier::launcher {

// A base of the movable job. `environment`: what a keeper needs to find the launcher. Pure but for a nonce. The other
// arguments as in BaseJob.
BaseJob base_job(const JobContext& context, const BaseShape& shape, std::vector<std::string> only,
                 std::vector<std::string> environment, bool immediate);

}  // namespace espalier::launcher
