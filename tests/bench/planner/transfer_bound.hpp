// The fewest bytes that a hand-off can send between nodes. Found without planning the hand-off.
#pragma once

#include <cstdint>

#include "torchrt/handoff/transfer/plan.hpp"

namespace espalier::bench {

// A coordinate must come from another node, once, if the node's new ranks need it and none of its
// old ranks held it. Per node this is the area of a union of rectangles. Tied tables count as one.
// Lost ranks hold nothing.
std::int64_t least_bytes_between_nodes(const torchrt::ModelConfig& model, const torchrt::TransferRequest& request);

}  // namespace espalier::bench
