// Slurm's own preemption for a waiting job, independent of the policy.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "planner/core/cluster.hpp"

namespace espalier::sim {

// The extensions that Slurm tries first. preempt/partition_prio takes jobs on equally many nodes in
// the order of their submission. PreemptParameters=youngest_first reverses that order. none: Slurm
// leaves preemption to the policy.
enum class Preemption { none, oldest, youngest };

// The extensions to preempt so that a job of `gpus` GPUs fits, as select/cons_tres finds them:
// - `candidates` are removed one by one, in Slurm's order, until the job fits.
// - A second pass starts with the last removed one, then takes the ones on the nodes found.
// - The removed extensions on the nodes of the second pass are preempted.
// Extensions in `leaving` have been told to end already. Empty: the job fits without preemption, or
// not at all. `gpu_type`: the job needs GPUs of this type; empty: of any one type.
std::vector<JobId> preempted_for(const ClusterView& cluster, int gpus, const std::vector<JobId>& candidates,
                                 const std::set<JobId>& leaving, const std::string& gpu_type = {});

}  // namespace espalier::sim
