// A small cluster and a job with simple numbers, for tests of the performance model.
#pragma once

#include <string>
#include <vector>

#include "planner/core/model/coefficients.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/topology/topology.hpp"

namespace espalier::model_cases {

struct Cluster {
  Hardware hardware;
  Topology topology;
};

// Nodes n0, n1, ... with 8 GPUs each. If `mixed`, even nodes have type "fast" and odd nodes type
// "slow". n0 to n3 share a leaf switch. The other nodes share another one.
inline Cluster cluster(int nodes = 4, bool mixed = false) {
  Cluster result;
  Hardware& hardware = result.hardware;
  hardware.types.push_back({"fast", 300, 1e6, 3000});
  hardware.types.push_back({"slow", 100, 5e5, 1000});
  NodeKind kind;
  kind.tp_bandwidth = 128;
  kind.dp_bandwidth = 50;
  kind.nic_bandwidth = 10;
  hardware.kinds.push_back(kind);
  hardware.v0 = 32;
  hardware.v_sat = 8192;  // 2^8 * v0
  for (int n = 0; n < nodes; ++n)
    result.topology.add_node("n" + std::to_string(n), 0,
                             std::vector<std::int16_t>(8, static_cast<std::int16_t>(mixed ? n % 2 : 0)),
                             {"spine", n < 4 ? "leaf0" : "leaf1"});
  return result;
}

inline JobCoefficients job(int layers = 12, int global_batch = 16) {
  JobCoefficients result;
  result.layers = layers;
  result.global_batch = global_batch;
  result.tp_degrees = {1, 2, 4, 8};
  result.activ_bytes = 256;
  result.param_bytes = 1000;
  result.param_optim_bytes = 3000;
  result.weight_bytes = 1000;
  result.activ_p_bytes = 400;
  result.activ_np_bytes = 100;
  result.gpu.push_back({3, 2, 6, 1, false, false, false, false});
  result.gpu.push_back({9, 2.5, 18, 1, false, false, false, false});
  return result;
}

// Consecutive GPUs of a node.
inline Replica replica(int share, int node, int first_gpu, int tp) {
  Replica result{share, {}};
  for (int k = 0; k < tp; ++k) result.gpus.push_back({"n" + std::to_string(node), first_gpu + k});
  return result;
}

}  // namespace espalier::model_cases
