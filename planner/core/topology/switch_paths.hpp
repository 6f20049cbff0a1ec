// From switches and what hangs under them to the switches above each node.
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

// `parent`: by switch. At most 32 levels.
SwitchPaths climb(const std::map<std::string, std::string>& parent, const std::vector<LeafSwitch>& leaves);

}  // namespace espalier
