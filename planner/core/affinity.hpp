// What nodes can give away, and how near they are to each other.
#pragma once

#include <vector>

#include "planner/core/cluster.hpp"

namespace espalier {

// What one node can still give away. Made from the cluster view, then drawn down as decisions are taken.
struct Supply {
  const NodeView* node = nullptr;  // of the cluster view, which must outlive this
  std::vector<int> gpus;           // idle GRES indices that growth may take
  int free_cpus = 0;
  long free_memory_mb = 0;
  int lease_minutes = 0;  // longest lease allowed here
};

// How many switches from the root down both nodes hang under. Equal paths share the leaf as well.
int common_switches(const NodeView& a, const NodeView& b);

}  // namespace espalier
