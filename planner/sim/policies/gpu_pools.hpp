// The cluster as policies see it that give jobs counts of GPUs of one type: a pool of nodes per type.
#pragma once

#include <vector>

#include "planner/core/cluster.hpp"
#include "planner/core/solver/sketch.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier::sim {

struct GpuPool {
  int type = 0;            // index into Hardware::types
  int node_gpus = 0;       // of its largest node
  int gpus = 0;            // of all of them
  std::vector<int> nodes;  // indices into the cluster view: usable nodes of this type, by name
};

// Fastest type first. A node's type is that of its first GPU.
std::vector<GpuPool> gpu_pools(const ClusterView& cluster, const Site& site);

// Where `gpus` of the pool's GPUs would stand if it were empty: within a node, or whole nodes of as few racks as
// possible and the rest on one more. Sorted; empty when there are not so many.
std::vector<Piece> compact_pieces(const GpuPool& pool, const ClusterView& cluster, const Site& site, int gpus);

}  // namespace espalier::sim
