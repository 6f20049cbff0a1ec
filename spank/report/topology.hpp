// This node's hardware as hwloc sees it.
#pragma once

#include <string>

namespace espalier::report {

// hwloc's XML with GPUs, NICs and the links between them. Throws Error.
std::string node_topology();

}  // namespace espalier::report
