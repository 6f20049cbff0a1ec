// Which links between a plan's nodes are looked at, and in what order. Pure.
#pragma once

#include <vector>

#include "planner/core/plan.hpp"

namespace espalier::torchrt {

// Two ranks on different nodes between which the plan's messages or sums go.
struct RankPair {
  int from = 0, to = 0;
  bool operator==(const RankPair&) const = default;
};
using Round = std::vector<RankPair>;  // no node is in it twice, so that no two pairs share a node's link

// One pair of ranks for each pair of nodes on which stages follow one another, or on which replicas of one stage follow
// one another. Every rank computes the same. Of a node's links at most kMostRounds are looked at, and of a plan's at
// most kMostLinkFigures. Empty: all ranks are on one node.
inline constexpr std::size_t kMostRounds = 16;
std::vector<Round> link_rounds(const Plan& plan);

}  // namespace espalier::torchrt
