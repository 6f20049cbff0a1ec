#include "planner/core/cluster.hpp"

#include <algorithm>

namespace espalier {

int NodeView::idle_gpus() const {
  return usable ? static_cast<int>(std::count(gpu_owner.begin(), gpu_owner.end(), JobId{0})) : 0;
}

const NodeView* ClusterView::find(const std::string& name) const {
  const auto at = std::lower_bound(nodes.begin(), nodes.end(), name,
                                   [](const NodeView& node, const std::string& wanted) { return node.name < wanted; });
  return at != nodes.end() && at->name == name ? &*at : nullptr;
}

}  // namespace espalier
