// Slurm's node records into ours.
#pragma once

#include <slurm/slurm.h>

#include <optional>

#include "planner/core/topology/switch_paths.hpp"
#include "planner/daemon/slurm.hpp"

namespace espalier {

// Owners are not filled in yet: indices that Slurm counts as used have kUnknownOwner.
NodeView convert_node(const node_info_t& node, const SwitchPaths& switches);

// Type and owners of the GPUs of a node, from its GRES texts. Of a node with GPUs of several types one type is lent
// (lent_type), and as many indices as that type has idle GPUs are idle. Slices of GPUs are never idle. False: a text
// cannot be read.
bool read_gpus(const std::string& gres, const std::string& gres_used, NodeView& view);

// The user for whose jobs alone Slurm keeps the node now; nullopt: it is open to all.
std::optional<uid_t> owner_of(const node_info_t& node);

// The features that the node has now, whatever others it could be given.
std::set<std::string> active_features(const node_info_t& node);
// Those that the node can have, if Slurm reboots it for them.
std::set<std::string> available_features(const node_info_t& node);

// Names the owner of every used GPU, and marks those of completing and preempted jobs as about to be idle. Where a job
// has been completing for more than 5 s, such as one whose node cannot be reached, the node is not usable: Slurm starts
// nothing there until it is done.
void assign_owners(SlurmSnapshot& snapshot);

}  // namespace espalier
