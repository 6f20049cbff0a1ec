// Cluster-wide coefficients from measurements (Suika App. A.4.1). They are the same for all models
// on the cluster.
#pragma once

#include <string>

#include "planner/core/model/hardware.hpp"

namespace espalier::bench {

// bytes/ms and bytes. The defaults are of an A800 node's order; a fit starts from them.
struct ClusterBandwidths {
  double tp = 200e6;               // NodeKind::tp_bandwidth
  double saturation_low = 1e6;     // Hardware::v0
  double saturation_high = 256e6;  // Hardware::v_sat
  double dp = 200e6;               // NodeKind::dp_bandwidth
  double nic = 12.5e6;             // NodeKind::nic_bandwidth
  // FLOP/ms that models reach; 0: unknown. Distinguishes recomputation from slowness.
  double flops = 0;
  bool operator==(const ClusterBandwidths&) const = default;
};

// One GPU type, with the node kinds that place() needs.
Hardware hardware_of(const ClusterBandwidths& bandwidths);

// A JSON file of these figures. Throws Error with the file's name and the fault.
ClusterBandwidths read_cluster(const std::string& path);
void write_cluster(const std::string& path, const ClusterBandwidths& bandwidths);

}  // namespace espalier::bench
