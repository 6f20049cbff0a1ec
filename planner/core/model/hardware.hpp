// Properties of the cluster's hardware (Suika App. A.4.1, "white-box" coefficients). They are
// measured once and never from a job. Units everywhere in model/ and solver/: milliseconds, bytes,
// bytes per millisecond, samples.
#pragma once

#include <string>
#include <vector>

namespace espalier {

struct GpuType {
  std::string name;            // Slurm's GRES type, e.g. "h100"
  double tflops = 1;           // dense BF16
  double memory_bytes = 80e9;  // capacity
  // bytes/ms. 0: unknown; all types of the cluster then scale with tflops alone (roofline.hpp).
  double memory_bandwidth = 0;
  bool operator==(const GpuType&) const = default;
};

// Bandwidths of one kind of node. Saturated values, in bytes/ms.
struct NodeKind {
  double tp_bandwidth = 100e6;  // k_bw-intra: bus bandwidth per GPU of a tensor-parallel all-reduce
  double dp_bandwidth = 140e6;  // bandwidth per GPU of a gradient ring inside the node
  double nic_bandwidth = 10e6;  // bandwidth of one rail to another node under the same leaf switch
  int nics = 0;                 // number of rails; 0: one per GPU
  bool operator==(const NodeKind&) const = default;
};

struct Hardware {
  std::vector<GpuType> types;
  std::vector<NodeKind> kinds;
  // Saturation of tensor-parallel all-reduces (A.2):
  //   effective = k_bw-intra * clamp(log2(V'/v0) / log2(v_sat/v0)).
  // The paper takes log2 of a size without a unit; v0 is the unit.
  double v0 = 1e6;
  double v_sat = 150e6;
  double crossing = 0.5;  // factor on nic_bandwidth for every switch level above the leaf
  // Share of the capacity that a plan may fill. The rest is M_overhead (A.3: 10%).
  double memory_share = 0.9;
  // Whether GPUs of one node that belong to two Slurm jobs reach each other's memory. Where they do not, they are
  // neighbours under one leaf switch (schedule/job_site.hpp).
  bool jobs_reach = false;
  bool operator==(const Hardware&) const = default;

  int type_index(const std::string& name) const;  // -1: unknown
};

// The factor on a tensor-parallel all-reduce's bandwidth for messages of `bytes` per GPU, in [0.05, 1].
double saturation(const Hardware& hardware, double bytes);

}  // namespace espalier
