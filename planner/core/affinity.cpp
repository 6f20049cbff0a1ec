#include "planner/core/affinity.hpp"

#include <algorithm>

namespace espalier {

int common_switches(const NodeView& a, const NodeView& b) {
  const auto at = std::mismatch(a.switches.begin(), a.switches.end(), b.switches.begin(), b.switches.end()).first;
  return static_cast<int>(at - a.switches.begin());
}

}  // namespace espalier
