// Slurm's node records into ours.
#pragma once

#include <slurm/slurm.h>

#include "planner/core/topology/switch_paths.hpp"
#include "planner/daemon/slurm.hpp"

namespace espalier {

// Owners are not filled in yet: indices that Slurm counts as used have kUnknownOwner.
NodeView convert_node(const node_info_t& node, const SwitchPaths& switches);

// Names the owner of every used GPU, and marks those of completing and preempted jobs as about to be idle. Where a job
// has been completing for more than 5 s, such as one whose node cannot be reached, the node is not usable: Slurm starts
// nothing there until it is done.
void assign_owners(SlurmSnapshot& snapshot);

}  // namespace espalier
