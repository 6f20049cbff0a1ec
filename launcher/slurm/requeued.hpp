// A launcher that was cut off from Slurm may not know that its job has another launcher.
#pragma once

#include "planner/core/job.hpp"

namespace espalier::launcher {

// Whether Slurm has requeued `job` since it had done so `restarts` times: another launcher holds its bases and
// extensions then. Throws Error when slurmctld is away. Blocks.
bool has_been_requeued(JobId job, int restarts);

}  // namespace espalier::launcher
