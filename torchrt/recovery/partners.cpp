#include "torchrt/recovery/partners.hpp"

#include <map>
#include <string>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

// Ranks of the same place, in the order of the places' first ranks.
std::vector<std::vector<int>> together(const std::vector<std::string>& places) {
  std::map<std::string, std::size_t> numbers;
  std::vector<std::vector<int>> groups;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const auto [known, fresh] = numbers.try_emplace(places[rank], groups.size());
    if (fresh) groups.emplace_back();
    groups[known->second].push_back(static_cast<int>(rank));
  }
  return groups;
}

}  // namespace

std::vector<int> snapshot_partners(const Plan& plan, const std::vector<std::string>& owners) {
  std::vector<std::string> nodes;
  for (const GpuId& gpu : plan.ranks()) nodes.push_back(gpu.node);
  ESPALIER_INVARIANT(owners.size() == nodes.size());
  std::vector<std::vector<int>> groups = together(nodes);
  if (groups.size() < 2) groups = together(owners);
  std::vector<int> partners(nodes.size(), -1);
  if (groups.size() < 2) return partners;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const std::vector<int>& next = groups[(group + 1) % groups.size()];
    for (std::size_t i = 0; i < groups[group].size(); ++i)
      partners[static_cast<std::size_t>(groups[group][i])] = next[i % next.size()];
  }
  return partners;
}

}  // namespace espalier::torchrt
