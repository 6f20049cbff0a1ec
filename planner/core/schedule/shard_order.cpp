#include "planner/core/schedule/shard_order.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <string>

namespace espalier {
namespace {

using Gains = std::vector<std::vector<std::int64_t>>;  // by the place in `after` and by rank

// What both shards have in common, if the state has as many pieces as there are pairs of an old rank and a new one.
std::int64_t common(std::size_t old_rank, std::size_t old_ranks, std::size_t rank, std::size_t ranks) {
  const auto begin = std::max(old_rank * ranks, rank * old_ranks);
  const auto end = std::min((old_rank + 1) * ranks, (rank + 1) * old_ranks);
  return end > begin ? static_cast<std::int64_t>(end - begin) : 0;
}

// One piece that stays on its node outweighs all that stay on their GPUs. One of these outweighs all places that are
// kept.
Gains gains_of(const std::vector<GpuId>& before, const std::vector<GpuId>& after) {
  const std::size_t ranks = after.size();
  const auto of_gpu = static_cast<std::int64_t>(ranks + 1);
  const auto of_node = static_cast<std::int64_t>(before.size() * ranks + 1) * of_gpu;
  std::map<std::string, std::vector<std::int64_t>> on_node;  // by rank
  for (std::size_t old_rank = 0; old_rank < before.size(); ++old_rank) {
    auto& pieces = on_node.try_emplace(before[old_rank].node, ranks, 0).first->second;
    for (std::size_t rank = 0; rank < ranks; ++rank) pieces[rank] += common(old_rank, before.size(), rank, ranks);
  }
  Gains gains(ranks, std::vector<std::int64_t>(ranks, 0));
  for (std::size_t place = 0; place < ranks; ++place) {
    const auto there = on_node.find(after[place].node);
    const auto held = std::find(before.begin(), before.end(), after[place]);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::int64_t& gain = gains[place][rank];
      if (there != on_node.end()) gain += of_node * there->second[rank];
      if (held != before.end())
        gain += of_gpu * common(static_cast<std::size_t>(held - before.begin()), before.size(), rank, ranks);
      gain += place == rank;
    }
  }
  return gains;
}

// The assignment of places 1, 2, ... to ranks 1, 2, ... with the largest sum of gains: the Hungarian method with
// shortest augmenting paths, which keeps a price for each place and each rank.
std::vector<std::size_t> best_assignment(const Gains& gains) {
  const std::size_t count = gains.size();
  constexpr auto kFar = std::numeric_limits<std::int64_t>::max() / 4;
  std::vector<std::int64_t> place_price(count, 0), rank_price(count, 0);
  std::vector<std::size_t> place_of(count, 0);  // by rank; 0: none yet. Rank 0 begins each path
  for (std::size_t place = 1; place < count; ++place) {
    place_of[0] = place;
    std::size_t at = 0;
    std::vector<std::int64_t> distance(count, kFar);
    std::vector<std::size_t> from(count, 0);
    std::vector<bool> reached(count, false);
    do {
      reached[at] = true;
      const std::size_t taken = place_of[at];
      std::size_t next = 0;
      std::int64_t least = kFar;
      for (std::size_t rank = 1; rank < count; ++rank) {
        if (reached[rank]) continue;
        const std::int64_t cost = -gains[taken][rank] - place_price[taken] - rank_price[rank];
        if (cost < distance[rank]) {
          distance[rank] = cost;
          from[rank] = at;
        }
        if (distance[rank] < least) {
          least = distance[rank];
          next = rank;
        }
      }
      for (std::size_t rank = 0; rank < count; ++rank) {
        if (reached[rank]) {
          place_price[place_of[rank]] += least;
          rank_price[rank] -= least;
        } else {
          distance[rank] -= least;
        }
      }
      at = next;
    } while (place_of[at] != 0);
    for (; at != 0; at = from[at]) place_of[at] = place_of[from[at]];
  }
  place_of[0] = 0;
  return place_of;
}

}  // namespace

std::vector<std::size_t> shard_order(const std::vector<GpuId>& before, const std::vector<GpuId>& after) {
  if (after.size() > 1 && !before.empty() && std::max(before.size(), after.size()) <= kMostOrdered)
    return best_assignment(gains_of(before, after));
  std::vector<std::size_t> order(after.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace espalier
