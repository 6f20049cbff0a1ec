// Changes of a Slurm job that its user may make. Each blocks, as everything of slurm.hpp, and throws Error when Slurm
// refuses.
#pragma once

#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::launcher {

// Of a job that waits or runs.
void lower_time_limit(JobId id, long minutes);
// Of a job that waits: the nodes that it must not get, in place of those before. It keeps its place in the queue.
void exclude_nodes(JobId id, const std::vector<std::string>& nodes);

}  // namespace espalier::launcher
