// The cluster of this machine, as Slurm reports it now.
#pragma once

#include <slurm/slurm.h>

#include <string>

#include "planner/cli/plan_cluster_file.hpp"

namespace espalier::cli {

// Nodes with GPUs and the switches above them, whatever jobs use them now. `topology` is the text that
// scontrol prints (planner/core/topology/topology_text.hpp). Throws Error when no node has GPUs, or a
// node's GRES cannot be read.
PlanCluster cluster_of(const node_info_msg_t& nodes, const std::string& topology);

// The same, from slurmctld's answers. Throws Error when they cannot be read, and as start_slurm(otherwise).
PlanCluster read_live_cluster(const std::string& otherwise = "");

}  // namespace espalier::cli
