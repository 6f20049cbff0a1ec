#include "torchrt/recovery/partners.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

// Groups the ranks with the same place, in the order of each place's first rank.
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

// The ranks of each group use the ranks of the next group. So no rank keeps a copy for its own
// group.
std::vector<int> next_of(const std::vector<std::vector<int>>& groups, std::size_t ranks) {
  std::vector<int> partners(ranks, -1);
  if (groups.size() < 2) return partners;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const std::vector<int>& next = groups[(group + 1) % groups.size()];
    for (std::size_t i = 0; i < groups[group].size(); ++i)
      partners[static_cast<std::size_t>(groups[group][i])] = next[i % next.size()];
  }
  return partners;
}

constexpr int kFewestCopies = 2,
              kMostCopies = 4;  // for one rank of the job's own; such ranks are few where most are lent

}  // namespace

int copies_that_fit(std::int64_t free_bytes, int ranks, std::int64_t state_bytes) {
  const std::int64_t copy = 2 * std::max<std::int64_t>(1, state_bytes);
  const std::int64_t left = free_bytes / std::max(1, ranks) - copy;
  return static_cast<int>(std::clamp<std::int64_t>(left / 2 / copy, kFewestCopies, kMostCopies));
}

std::vector<int> snapshot_partners(const Plan& plan, const std::vector<VaultPlace>& places) {
  std::vector<std::string> nodes, owners;
  for (const GpuId& gpu : plan.ranks()) nodes.push_back(gpu.node);
  for (const VaultPlace& place : places) owners.push_back(place.owner);
  ESPALIER_INVARIANT(owners.size() == nodes.size());
  std::vector<std::vector<int>> groups = together(nodes);
  if (groups.size() < 2) groups = together(owners);
  std::vector<int> partners = next_of(groups, nodes.size());
  std::vector<std::size_t> own;
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    if (places[rank].own) own.push_back(rank);
  std::vector<int> kept(places.size(), 0);
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    if (places[rank].with_launcher) partners[rank] = -1;
    if (places[rank].with_launcher) continue;
    const auto outlives = [&](std::size_t keeper) {
      return nodes[keeper] != nodes[rank] || (places[keeper].with_launcher && owners[keeper] != owners[rank]);
    };
    std::optional<std::size_t> best;
    for (const std::size_t keeper : own)
      if (outlives(keeper) && kept[keeper] < places[keeper].copies && (!best || kept[keeper] < kept[*best]))
        best = keeper;
    if (!best && !own.empty())  // a lent rank elsewhere is better than one copy more than an own rank has room for
      for (std::size_t keeper = 0; keeper < places.size(); ++keeper)
        if (!places[keeper].own && nodes[keeper] != nodes[rank] && (!best || kept[keeper] < kept[*best])) best = keeper;
    if (!best) {
      if (partners[rank] >= 0) ++kept[static_cast<std::size_t>(partners[rank])];
      continue;
    }
    partners[rank] = static_cast<int>(*best);
    ++kept[*best];
  }
  return partners;
}

}  // namespace espalier::torchrt
