// Where counts of GPUs go: whole nodes first, jobs stay where they are as far as possible, small jobs make room for
// larger ones (as Sia's released code places its configurations).
#pragma once

#include <span>
#include <vector>

namespace espalier::sim {

struct PackedNode {
  int gpus = 0;  // that may be given to these jobs, those that they hold included
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
  Spread held;         // what it has on these nodes now
  bool fixed = false;  // stays on exactly what it holds
};

// One spread a job; empty where it wants nothing, or nothing could be found. A job that wants as many GPUs as it holds
// stays, unless a larger one needs its place. Less than a node is never split; more is whole nodes, of one rack if
// possible, and the rest on one further node. Counts that are powers of two inside a node and whole nodes beyond all
// find a place when their sum fits and nothing is fixed (all nodes being alike). Deterministic.
std::vector<Spread> pack(std::span<const PackedNode> nodes, std::span<const PackedJob> jobs);

}  // namespace espalier::sim
