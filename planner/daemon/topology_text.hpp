// Slurm's topology as text. libslurm's API knows topology/tree only (up to 24.11), so a site with topology/block names
// a file in planner.topology_file: its topology.conf, or what `scontrol show topology` prints.
#pragma once

#include <string>

#include "planner/daemon/slurm_nodes.hpp"

namespace espalier {

// Understands, one record a line and keys in any case,
//   SwitchName=s1 Nodes=n[1-4]       SwitchName=s3 Switches=s[1-2]
//   BlockName=b1 Nodes=n[1-8]        BlockSizes=8,32 (topology.conf): every 4 blocks in a row are one larger block
//   AggregatedBlock=b[1-4] Nodes=... (scontrol): as this names them
// and skips other keys. A block is a leaf switch, a larger block the switch above it. Throws Error when there is
// neither a switch nor a block with nodes.
SwitchPaths parse_topology(const std::string& text);

// The same of a file. Throws Error.
SwitchPaths read_topology_file(const std::string& path);

}  // namespace espalier
