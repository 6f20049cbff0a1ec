#include "planner/core/schedule/neutral_site.hpp"

namespace espalier {

std::shared_ptr<const Site> neutral_site(const ClusterView& cluster) {
  auto site = std::make_shared<Site>();
  site->hardware.kinds.emplace_back();
  for (const NodeView& node : cluster.nodes) {
    int type = site->hardware.type_index(node.gpu_type);
    if (type < 0) {
      type = static_cast<int>(site->hardware.types.size());
      site->hardware.types.push_back({node.gpu_type, 1, 80e9, 0});
    }
    site->topology.add_node(
        node.name, 0, std::vector<std::int16_t>(node.gpu_owner.size(), static_cast<std::int16_t>(type)), node.switches);
  }
  if (site->hardware.types.empty()) site->hardware.types.push_back({"gpu", 1, 80e9, 0});
  return site;
}

}  // namespace espalier
