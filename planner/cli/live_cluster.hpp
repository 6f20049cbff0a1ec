// The cluster that this machine belongs to, as Slurm knows it now.
#pragma once

#include <slurm/slurm.h>

#include "planner/cli/plan_cluster_file.hpp"

namespace espalier::cli {

// Nodes with GPUs and the switches above them, whoever uses them now. Throws Error when there are none, or a node's
// GRES cannot be read. `topology`: as scontrol prints it (planner/core/topology/topology_text.hpp).
PlanCluster cluster_of(const node_info_msg_t& nodes, const std::string& topology);

// The same of slurmctld's answers. Throws Error.
PlanCluster read_live_cluster();

}  // namespace espalier::cli
