#include "planner/core/affinity.hpp"

#include <algorithm>
#include <tuple>

namespace espalier {
namespace {

bool holds(const std::vector<Holding>& holdings, const std::string& node) {
  return std::any_of(holdings.begin(), holdings.end(), [&](const Holding& h) { return h.node == node; });
}

}  // namespace

int common_switches(const NodeView& a, const NodeView& b) {
  const auto at = std::mismatch(a.switches.begin(), a.switches.end(), b.switches.begin(), b.switches.end()).first;
  return static_cast<int>(at - a.switches.begin());
}

std::vector<const Supply*> nearest_first(const ElasticJob& job, const ClusterView& cluster,
                                         const std::vector<Supply>& supplies) {
  const NodeView* home = job.anchor.empty() ? nullptr : cluster.find(job.anchor.front().node);
  using Key = std::tuple<bool, int, bool, int, std::string>;
  std::vector<std::pair<Key, const Supply*>> order;
  for (const Supply& supply : supplies) {
    const NodeView& node = *supply.node;
    const int common = home ? common_switches(*home, node) : 0;
    order.push_back({{!holds(job.anchor, node.name), -common, !holds(job.extensions, node.name),
                      -static_cast<int>(supply.gpus.size()), node.name},
                     &supply});
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const Supply*> result;
  for (const auto& entry : order) result.push_back(entry.second);
  return result;
}

}  // namespace espalier
