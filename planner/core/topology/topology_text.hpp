// Reads Slurm's topology as text: what `scontrol show topology` prints, or a site's topology.conf.
#pragma once

#include <string>

#include "planner/core/topology/switch_paths.hpp"

namespace espalier {

// Reads one record a line, with keys in any case:
//   SwitchName=s1 Nodes=n[1-4]       SwitchName=s3 Switches=s[1-2]
//   BlockName=b1 Nodes=n[1-8]        BlockSizes=8,32 (topology.conf): every 4 blocks in a row form a larger one
//   AggregatedBlock=b[1-4] Nodes=... (scontrol): a larger block by name
// Other keys are skipped. A block is a leaf switch, a larger block is the switch above it. The result is
// empty when there is neither a switch nor a block with nodes. Throws Error when a block's size is no number.
SwitchPaths parse_topology(const std::string& text);

// parse_topology() of a file. Throws Error when the file cannot be read or names nothing.
SwitchPaths read_topology_file(const std::string& path);

}  // namespace espalier
