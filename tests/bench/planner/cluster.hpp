// What measurements say of the cluster that they come from: cluster-wide coefficients (Suika App. A.4.1), the same for
// all models on it.
#pragma once

#include <string>

#include "planner/core/model/hardware.hpp"

namespace espalier::bench {

// bytes/ms and bytes; the defaults, of an A800 node's order, are where a fit begins.
struct ClusterBandwidths {
  double tp = 200e6;               // NodeKind::tp_bandwidth
  double saturation_low = 1e6;     // Hardware::v0
  double saturation_high = 256e6;  // Hardware::v_sat
  double dp = 200e6;               // NodeKind::dp_bandwidth
  double nic = 12.5e6;             // NodeKind::nic_bandwidth
  double flops = 0;                // FLOP/ms that models reach; 0: unknown. Tells recomputation from slowness.
  bool operator==(const ClusterBandwidths&) const = default;
};

// One GPU type and the node kinds that place() wants.
Hardware hardware_of(const ClusterBandwidths& bandwidths);

// A JSON file of these figures. Throws Error that names the file and what is wrong with it.
ClusterBandwidths read_cluster(const std::string& path);
void write_cluster(const std::string& path, const ClusterBandwidths& bandwidths);

}  // namespace espalier::bench
