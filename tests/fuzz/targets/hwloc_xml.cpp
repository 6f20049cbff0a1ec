// The topology that a node reports.
#include <cmath>

#include "planner/core/error.hpp"
#include "planner/core/topology/node_xml.hpp"
#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {

void hwloc_xml(std::string_view input) {
  try {
    const NodeHardware node = read_node_xml(std::string(input));
    require(!node.gpus.empty() && static_cast<std::size_t>(node.inside.gpus) == node.gpus.size());
    for (const float speed : node.inside.bandwidth) require(std::isfinite(speed) && speed >= 0);
  } catch (const Error&) {
  }
}

}  // namespace espalier::fuzz
