// Places counts of GPUs. Whole nodes come first. Jobs stay in place as far as possible. Small jobs
// make room for larger ones (as Sia's released code places its configurations).
#pragma once

#include <span>
#include <vector>

namespace espalier::sim {

struct PackedNode {
  int gpus = 0;  // GPUs that these jobs may get, including the ones that they hold
  int rack = 0;  // nodes of equal rack are near each other
};

struct NodeShare {
  int node = 0;
  int gpus = 0;
  bool operator==(const NodeShare&) const = default;
};
using Spread = std::vector<NodeShare>;  // ascending nodes, each once
int count_gpus(const Spread& spread);

struct PackedJob {
  int gpus = 0;        // wanted
  Spread held;         // its GPUs on these nodes now
  bool fixed = false;  // stays on exactly the GPUs it holds
};

// One spread per job. Empty: the job wants nothing, or no place was found. A job that wants as many
// GPUs as it holds stays, unless a larger job needs its place. Less than a node is never split.
// More than a node is split into whole nodes, of one rack if possible, and the rest on one further
// node. If all nodes are alike, nothing is fixed and the sum fits, then counts that are powers of
// two inside a node or whole nodes all find a place. Deterministic.
std::vector<Spread> pack(std::span<const PackedNode> nodes, std::span<const PackedJob> jobs);

}  // namespace espalier::sim
