// topology.conf, and what `scontrol show topology` prints.
#include <string>

#include "planner/core/error.hpp"
#include "planner/core/topology/topology_text.hpp"
#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {

void topology_text(std::string_view input) {
  try {
    for (const auto& [node, path] : parse_topology(std::string(input))) require(!node.empty() && !path.empty());
  } catch (const Error&) {
  }
}

}  // namespace espalier::fuzz
