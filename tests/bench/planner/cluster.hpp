// The bandwidths of a measured cluster: in a file, and as hardware.
#pragma once

#include <string>

#include "planner/core/model/bandwidth_fit.hpp"
#include "planner/core/model/hardware.hpp"

namespace espalier::bench {

// One GPU type, with the node kinds that place() needs.
Hardware hardware_of(const ClusterBandwidths& bandwidths);

// A JSON file of these figures. Throws Error with the file's name and the fault.
ClusterBandwidths read_cluster(const std::string& path);
void write_cluster(const std::string& path, const ClusterBandwidths& bandwidths);

}  // namespace espalier::bench
