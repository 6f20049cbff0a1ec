// Which waiting job a second base keeps from starting. A base moves only to GPUs that no waiting job could use, and a
// job may begin to wait while it moves. Pure.
#pragma once

#include <set>

#include "planner/core/cluster.hpp"

namespace espalier {

// The first job that waits and is not in `before`, and that could start if the Slurm job `base` gave its GPUs back, but
// not without them: it needs so many nodes that it may use with its share of GPUs idle on each. 0: there is none. At
// most 64 jobs are looked at. Cost: O(those x nodes x GPUs of a node).
JobId hindered_by(JobId base, const std::set<JobId>& before, const ClusterView& cluster);

}  // namespace espalier
