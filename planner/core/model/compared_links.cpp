#include "planner/core/model/compared_links.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace espalier {
namespace {

// The kinds of both nodes, and how far apart they are.
using Kind = std::tuple<int, int, int>;

struct Ends {
  std::vector<std::string> fast, slow;  // nodes at the other end
  double best = 0;                      // share
};

std::map<std::string, Ends> ends_of(const std::vector<ComparedLink>& links) {
  std::map<std::string, Ends> nodes;
  for (const ComparedLink& link : links)
    for (const auto& [node, other] : {std::pair(link.from, link.to), std::pair(link.to, link.from)}) {
      Ends& ends = nodes[node];
      (link.share < kSlowLink ? ends.slow : ends.fast).push_back(other);
      ends.best = std::max(ends.best, link.share);
    }
  return nodes;
}

}  // namespace

std::vector<ComparedLink> compare_links(const Site& site, const std::vector<LinkFigure>& links) {
  std::map<Kind, std::vector<const LinkFigure*>> alike;
  for (const LinkFigure& link : links) {
    const int from = site.topology.find(link.from), to = site.topology.find(link.to);
    if (from < 0 || to < 0 || from == to || !(link.gb_s > 0)) continue;
    const auto [one, other] = std::minmax({site.topology.kind(from), site.topology.kind(to)});
    alike[{one, other, site.topology.distance(from, to)}].push_back(&link);
  }
  std::vector<ComparedLink> result;
  for (const auto& [kind, group] : alike) {
    if (group.size() < 2) continue;
    std::vector<double> reached;
    for (const LinkFigure* link : group) reached.push_back(link->gb_s);
    const auto upper = reached.begin() + static_cast<std::ptrdiff_t>(3 * reached.size() / 4);
    std::nth_element(reached.begin(), upper, reached.end());
    for (const LinkFigure* link : group) result.push_back({link->from, link->to, link->gb_s / *upper});
  }
  return result;
}

SlowPaths slow_paths(const std::vector<ComparedLink>& links) {
  const auto nodes = ends_of(links);
  SlowPaths paths;
  for (const auto& [node, ends] : nodes) {
    const bool told = std::any_of(ends.slow.begin(), ends.slow.end(),
                                  [&](const std::string& other) { return !nodes.at(other).fast.empty(); });
    if (!ends.fast.empty() || !told) continue;
    SlowPaths::Node& slow = paths.nodes.emplace_back(SlowPaths::Node{node, ends.slow, ends.best});
    std::sort(slow.to.begin(), slow.to.end());
  }
  const auto explained = [&](const std::string& name) {
    return std::any_of(paths.nodes.begin(), paths.nodes.end(), [&](const auto& one) { return one.node == name; });
  };
  for (const ComparedLink& link : links) {
    if (link.share >= kSlowLink || explained(link.from) || explained(link.to)) continue;
    const auto [one, other] = std::minmax(link.from, link.to);
    paths.pairs.push_back({one, other, link.share});
  }
  std::sort(paths.pairs.begin(), paths.pairs.end(),
            [](const auto& a, const auto& b) { return std::tie(a.from, a.to) < std::tie(b.from, b.to); });
  return paths;
}

}  // namespace espalier
