// What the ranks of `espalier calibrate` are asked to measure. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace espalier {

using NodePair = std::pair<std::string, std::string>;

struct ProbeRequest {
  std::vector<NodePair> pairs;  // of nodes, each once
  double seconds = 300;         // no measurement begins after this time
};

// One line of JSON, an argument of `espalier-train --calibrate`.
std::string to_text(const ProbeRequest& request);
// Throws Error.
ProbeRequest probe_request(const std::string& text);

}  // namespace espalier
