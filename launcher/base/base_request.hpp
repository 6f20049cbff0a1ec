// What Slurm is asked for when a movable job wants a base.
#pragma once

#include <ctime>
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

// In words: that the partition of the bases allows them less time than the user asked for. Empty: it does not. Pure.
std::string cut_short(const JobContext& context, std::time_t now);

// The GPUs that the job's base may have. Pure.
BaseTypes types_of_base(const JobContext& context);

// Whether a base that waits, which an earlier launcher of the job has submitted, is one that base_job() might submit as
// the first: `shape` is one of base_shapes(). It may exclude more nodes. Its time limit is the rest of what
// it had. Pure. Only the job's user and the site can have written what this looks at.
bool still_wanted(const SlurmJob& waits, const JobContext& context, const BaseShape& shape);

// The form of a base that runs.
BaseShape shape_of(const SlurmJob& runs);

}  // namespace espalier::launcher
