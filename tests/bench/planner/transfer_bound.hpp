// The fewest bytes that a hand-off can send between nodes, found without planning it.
#pragma once

#include <cstdint>

#include "torchrt/handoff/transfer/plan.hpp"

namespace espalier::bench {

// Every coordinate that a node's new ranks need and none of its old ranks held must come from another node, once: per
// node the area of a union of rectangles. Tied tables are one; lost ranks hold nothing.
std::int64_t least_bytes_between_nodes(const torchrt::ModelConfig& model, const torchrt::TransferRequest& request);

}  // namespace espalier::bench
