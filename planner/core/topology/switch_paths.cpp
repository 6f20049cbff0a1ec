#include "planner/core/topology/switch_paths.hpp"

#include <algorithm>

namespace espalier {

SwitchPaths climb(const std::map<std::string, std::string>& parent, const std::vector<LeafSwitch>& leaves) {
  SwitchPaths paths;
  for (const LeafSwitch& leaf : leaves) {
    std::vector<std::string> path{leaf.name};
    for (auto up = parent.find(leaf.name); up != parent.end() && path.size() < 32; up = parent.find(up->second))
      path.push_back(up->second);
    std::reverse(path.begin(), path.end());
    for (const auto& node : leaf.nodes) paths[node] = path;
  }
  return paths;
}

}  // namespace espalier
