// Slurm's topology as text: what `scontrol show topology` prints, or a site's topology.conf.
#pragma once

#include <string>

#include "planner/core/topology/switch_paths.hpp"

namespace espalier {

// Understands, one record a line and keys in any case,
//   SwitchName=s1 Nodes=n[1-4]       SwitchName=s3 Switches=s[1-2]
//   BlockName=b1 Nodes=n[1-8]        BlockSizes=8,32 (topology.conf): every 4 blocks in a row are one larger block
//   AggregatedBlock=b[1-4] Nodes=... (scontrol): as this names them
// and skips other keys. A block is a leaf switch, a larger block the switch above it. The result is empty when there is
// neither a switch nor a block with nodes. Throws Error when a block's size is no number.
SwitchPaths parse_topology(const std::string& text);

// The same of a file. Throws Error when it cannot be read, and when it names nothing.
SwitchPaths read_topology_file(const std::string& path);

}  // namespace espalier
