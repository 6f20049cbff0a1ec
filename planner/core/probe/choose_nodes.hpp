// Chooses the nodes and the pairs of nodes that `espalier calibrate` measures. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "planner/core/probe/request.hpp"
#include "planner/core/topology/topology.hpp"

namespace espalier {

inline constexpr std::size_t kMostChosenNodes = 8;

struct ProbeNode {
  std::string name, gpu_type;
  int gpus = 0;
  bool idle = true;
};

// One node of each GPU type; then pairs under one leaf switch, leaf by leaf, first leaves that are
// farther from the chosen ones than any so far; then others, so that there are four at least: with
// fewer nobody could say which of them is slow. Idle nodes come first. Sorted by name.
std::vector<std::string> choose_nodes(const std::vector<ProbeNode>& nodes, const Topology& topology,
                                      std::size_t most = kMostChosenNodes);

// All pairs of at most kMostChosenNodes nodes. Of more nodes, each with the two that follow it
// among those at the same distance from it, for every distance. Near pairs first.
std::vector<NodePair> choose_pairs(const std::vector<std::string>& nodes, const Topology& topology);

}  // namespace espalier
