// The cluster as pools of nodes, one per GPU type. For policies that give jobs counts of GPUs of
// one type.
#pragma once

#include <vector>

#include "planner/core/cluster.hpp"
#include "planner/core/solver/sketch.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

struct GpuPool {
  int type = 0;            // index into Hardware::types
  int node_gpus = 0;       // GPUs of its largest node
  int gpus = 0;            // GPUs of all its nodes
  std::vector<int> nodes;  // usable nodes of this type: indices into the cluster view, by name
};

// The fastest type is first. A node's type is its first GPU's type.
std::vector<GpuPool> gpu_pools(const ClusterView& cluster, const Site& site);

// The place of `gpus` of the pool's GPUs in an empty pool: within a node, or whole nodes of as few
// racks as possible with the rest on one more node. Sorted. Empty: the pool has fewer GPUs.
std::vector<Piece> compact_pieces(const GpuPool& pool, const ClusterView& cluster, const Site& site, int gpus);

}  // namespace espalier
