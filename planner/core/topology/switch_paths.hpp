// Computes the switches above each node from the switches and the nodes below them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace espalier {

// By node: the switches above it, from the root down.
using SwitchPaths = std::map<std::string, std::vector<std::string>>;

struct LeafSwitch {
  std::string name;
  std::vector<std::string> nodes;
};

// `parent`: the parent of each switch. Paths are cut at 32 levels.
SwitchPaths climb(const std::map<std::string, std::string>& parent, const std::vector<LeafSwitch>& leaves);

}  // namespace espalier
