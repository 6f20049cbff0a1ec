// The bandwidths of a cluster, and the search for those that explain measured times best.
#pragma once

#include <functional>

namespace espalier {

// Cluster-wide coefficients (Suika App. A.4.1). They are the same for all models on the cluster.
// bytes/ms and bytes. The defaults are of an A800 node's order.
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

// The mean relative error of predictions with these bandwidths.
using BandwidthLoss = std::function<double(const ClusterBandwidths&)>;

// Finds the bandwidths with the least loss, within a factor of 20 of `start` each. A bandwidth on
// which the loss does not depend stays near its start. Does not set `flops`. Deterministic.
ClusterBandwidths fit_bandwidths(const ClusterBandwidths& start, const BandwidthLoss& loss);

}  // namespace espalier
