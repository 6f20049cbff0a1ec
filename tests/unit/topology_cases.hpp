// Clusters for the tests of the topology.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "planner/core/topology/affinity_order.hpp"

namespace espalier::test {

struct Cluster {
  Hardware hardware;
  Topology topology;
};

// `spines` x `leaves` x `nodes` equal nodes named n0, n1, ...
inline Cluster regular_cluster(int spines, int leaves, int nodes, int gpus) {
  Cluster result;
  result.hardware.types = {{"h100", 989}};
  result.hardware.kinds = {{}};
  int number = 0;
  const std::vector<std::int16_t> types(static_cast<std::size_t>(gpus), 0);
  for (int spine = 0; spine < spines; ++spine)
    for (int leaf = 0; leaf < leaves; ++leaf)
      for (int i = 0; i < nodes; ++i)
        result.topology.add_node("n" + std::to_string(number++), 0, types,
                                 {"core", "s" + std::to_string(spine), "l" + std::to_string(spine * leaves + leaf)});
  return result;
}

}  // namespace espalier::test
