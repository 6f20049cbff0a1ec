// What Slurm itself takes back for a waiting job, whatever the policy would choose.
#pragma once

#include <set>
#include <vector>

#include "planner/core/cluster.hpp"

namespace espalier::sim {

// Which extensions Slurm tries first. preempt/partition_prio takes jobs on equally many nodes in the order of their
// submission; PreemptParameters=youngest_first turns it round. none: Slurm leaves it to the policy.
enum class Preemption { none, oldest, youngest };

// Extensions that go so that a job of `gpus` GPUs fits, as select/cons_tres finds them: `candidates` in Slurm's order
// leave one by one until the job fits; then once more, the one that was needed last first, and after it those on the
// nodes found; what is on those nodes goes. `leaving` have been told to go already. Empty: it fits without, or not at
// all.
std::vector<JobId> preempted_for(const ClusterView& cluster, int gpus, const std::vector<JobId>& candidates,
                                 const std::set<JobId>& leaving);

}  // namespace espalier::sim
