// Resources that nodes can give to growing jobs, and how near nodes are to each other.
#pragma once

#include <vector>

#include "planner/core/cluster.hpp"

namespace espalier {

// Resources of one node that growth may still take. They start as in the cluster view. Each
// decision reduces them.
struct Supply {
  const NodeView* node = nullptr;  // in the cluster view, which must outlive this Supply
  std::vector<int> gpus;           // idle GRES indices that growth may take
  int free_cpus = 0;
  long free_memory_mb = 0;
  int lease_minutes = 0;  // longest lease allowed on this node
};

// The number of switches, counted from the root, that both nodes hang under. Equal paths share the
// leaf switch as well.
int common_switches(const NodeView& a, const NodeView& b);

}  // namespace espalier
