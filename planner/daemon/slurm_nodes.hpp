// Slurm's node and switch records into ours.
#pragma once

#include <slurm/slurm.h>

#include <map>
#include <string>
#include <vector>

#include "planner/daemon/slurm.hpp"

namespace espalier {

// Switches above each node, from the root down. Works for topology/tree; other topologies give nothing: see
// topology_text.hpp.
using SwitchPaths = std::map<std::string, std::vector<std::string>>;
SwitchPaths convert_switches(const topo_info_response_msg_t& topology);

struct LeafSwitch {
  std::string name;
  std::vector<std::string> nodes;
};
// `parent`: by switch. At most 32 levels.
SwitchPaths climb(const std::map<std::string, std::string>& parent, const std::vector<LeafSwitch>& leaves);

// Owners are not filled in yet: indices that Slurm counts as used have kUnknownOwner.
NodeView convert_node(const node_info_t& node, const SwitchPaths& switches);

// Names the owner of every used GPU, and marks those of completing and preempted jobs as about to be idle.
void assign_owners(SlurmSnapshot& snapshot);

}  // namespace espalier
