// A cluster with several types of GPU, each on nodes of its own, for measuring decisions.
#pragma once

#include "planner/core/cluster.hpp"
#include "planner/core/topology/hardware_overrides.hpp"

namespace espalier::bench {

struct TypedCluster {
  ClusterView view;            // all GPUs idle, nodes sorted by name
  HardwareOverrides hardware;  // as a site's espalier.toml would give it
};

// `types` 1: nodes of 8 H100s as in paper_cluster(), 16 nodes a rack. More: the first `types` of A100, A40, A10 and
// V100, as in the preset cluster-arena, and H100 and L20, as in cluster-arena-b, with as equal numbers of GPUs as whole
// nodes allow. 1,280 GPUs of four types are cluster-arena itself. A leaf switch holds as many nodes as the preset has
// of the type. Throws Error that names the option when a type would have no node, GPUs are left over, or there is no
// such type.
TypedCluster typed_cluster(int gpus, int types);

}  // namespace espalier::bench
