// Which links between a job's nodes are far slower than its others, as the job has measured them. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/core/link_look.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// A link that reaches less than this share of its like is slow. One stream of another job's on a link leaves half of
// it.
inline constexpr double kSlowLink = 0.5;

struct ComparedLink {
  std::string from, to;
  double share = 1;  // of what its like reach
};

// The bandwidth of each link relative to the job's links that are like it: between nodes of the same two kinds, equally
// many switches apart. They are compared with the upper quartile: of two links the slower one is slow, and of a job's
// links half may touch one slow node. A link without another one to compare with is absent, and so is one of a node
// that the site does not know. `links`: each pair of nodes at most once.
std::vector<ComparedLink> compare_links(const Site& site, const std::vector<LinkFigure>& links);

// What slow links say of nodes. The order of the results depends on the names alone.
struct SlowPaths {
  // A node whose own link is slow: all its compared links are slow, and a node at the other end of one has a fast one.
  struct Node {
    std::string node;
    std::vector<std::string> to;  // sorted
    double share = 1;             // of its best link
  };
  std::vector<Node> nodes;
  std::vector<ComparedLink> pairs;  // slow links that no such node explains
};
SlowPaths slow_paths(const std::vector<ComparedLink>& links);

}  // namespace espalier
