<<<<<<< HEAD:planner/daemon/topology_text.hpp
// Reads Slurm's topology as text. libslurm's API knows only topology/tree (up to 24.11). A site
// with topology/block therefore names a file in planner.topology_file. The file is its
// topology.conf or the output of `scontrol show topology`.
=======
// Slurm's topology as text: what `scontrol show topology` prints, or a site's topology.conf.
>>>>>>> h-slurm:planner/core/topology/topology_text.hpp
#pragma once

#include <string>

#include "planner/core/topology/switch_paths.hpp"

namespace espalier {

// Reads one record a line, with keys in any case:
//   SwitchName=s1 Nodes=n[1-4]       SwitchName=s3 Switches=s[1-2]
<<<<<<< HEAD:planner/daemon/topology_text.hpp
//   BlockName=b1 Nodes=n[1-8]        BlockSizes=8,32 (topology.conf): 4 blocks form one larger
//   AggregatedBlock=b[1-4] Nodes=... (scontrol): a larger block by name
// Other keys are skipped. A block is a leaf switch, a larger block is the switch above it. Throws
// Error when there is neither a switch nor a block with nodes.
SwitchPaths parse_topology(const std::string& text);

// parse_topology() of a file. Throws Error.
=======
//   BlockName=b1 Nodes=n[1-8]        BlockSizes=8,32 (topology.conf): every 4 blocks in a row are one larger block
//   AggregatedBlock=b[1-4] Nodes=... (scontrol): as this names them
// and skips other keys. A block is a leaf switch, a larger block the switch above it. The result is empty when there is
// neither a switch nor a block with nodes. Throws Error when a block's size is no number.
SwitchPaths parse_topology(const std::string& text);

// The same of a file. Throws Error when it cannot be read, and when it names nothing.
>>>>>>> h-slurm:planner/core/topology/topology_text.hpp
SwitchPaths read_topology_file(const std::string& path);

}  // namespace espalier
