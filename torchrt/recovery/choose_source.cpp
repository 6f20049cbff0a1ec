#include "torchrt/recovery/choose_source.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace espalier::torchrt {

namespace {

// By old rank and unit: its holders, each with a slot.
using Keepers = std::map<std::pair<int, int>, std::set<std::pair<int, int>>>;

// Groups a stage's ranks that hold the same state. One rank of each group is enough.
std::vector<std::vector<int>> alike(const GenerationLayout& lost, const StageLayout& stage) {
  std::map<std::pair<int, int>, std::vector<int>> groups;  // by TP rank and ZeRO part
  for (int rank = stage.first_rank; rank < stage.first_rank + stage.ranks(); ++rank) {
    const RankLayout& self = lost.layout.ranks[static_cast<std::size_t>(rank)];
    groups[{self.tp_rank, lost.zero1 ? self.replica : 0}].push_back(rank);
  }
  std::vector<std::vector<int>> result;
  for (auto& [key, ranks] : groups) result.push_back(std::move(ranks));
  return result;
}

bool whole(const GenerationLayout& lost, const std::function<bool(int rank, int unit)>& has) {
  for (const StageLayout& stage : lost.layout.stages)
    for (const std::vector<int>& ranks : alike(lost, stage))
      for (const int unit : lost.layout.ranks[static_cast<std::size_t>(stage.first_rank)].units)
        if (std::none_of(ranks.begin(), ranks.end(), [&](int rank) { return has(rank, unit); })) return false;
  return true;
}

// The holder and slot with the most units of one rank's state. Among equals, the rank itself.
std::pair<int, int> best_keeper(const Keepers& keepers, int rank, const std::vector<int>& units) {
  std::map<std::pair<int, int>, int> counts;
  for (const int unit : units)
    if (const auto found = keepers.find({rank, unit}); found != keepers.end())
      for (const std::pair<int, int>& keeper : found->second) ++counts[keeper];
  std::pair<int, int> best{-1, -1};
  int most = 0;
  for (const auto& [keeper, count] : counts)
    if (count > most || (count == most && keeper.first == rank && best.first != rank)) {
      best = keeper;
      most = count;
    }
  return best;
}

// Tries the steps of `left`, the newest first.
bool choose(const GenerationLayout& lost, const std::vector<Held>& left, std::int64_t oldest, SourceChoice& choice) {
  std::map<std::int64_t, Keepers, std::greater<>> versions;
  for (const Held& held : left)
    if (held.step >= std::max<std::int64_t>(oldest, 0))
      versions[held.step][{held.rank, held.unit}].insert({held.holder, held.slot});
  for (const auto& [step, keepers] : versions) {
    SourceChoice found;
    found.origin = choice.origin;
    found.generation = choice.generation;
    found.step = step;
    for (std::size_t rank = 0; rank < lost.layout.ranks.size(); ++rank) {
      const std::vector<int>& units = lost.layout.ranks[rank].units;
      const auto keeper = best_keeper(keepers, static_cast<int>(rank), units);
      found.holder.push_back(keeper.first);
      found.slot.push_back(keeper.second);
      for (const int unit : units) {
        const auto kept = keepers.find({static_cast<int>(rank), unit});
        if (kept == keepers.end() || kept->second.count(keeper) == 0)
          found.torn.emplace_back(static_cast<int>(rank), unit);
      }
    }
    const std::set<std::pair<int, int>> torn(found.torn.begin(), found.torn.end());
    if (!whole(lost, [&](int rank, int unit) { return torn.count({rank, unit}) == 0; })) continue;
    choice = std::move(found);
    return true;
  }
  return false;
}

}  // namespace

std::string to_string(Origin origin) {
  switch (origin) {
    case Origin::generation:
      return "generation";
    case Origin::snapshot:
      return "snapshot";
    case Origin::checkpoint:
      return "checkpoint";
    case Origin::start:
      break;
  }
  return "start";
}

SourceChoice choose_source(const std::vector<Remains>& remains, std::int64_t newest_checkpoint) {
  for (std::size_t i = 0; i < remains.size(); ++i) {
    std::vector<Held> own;
    for (const Held& held : remains[i].left)
      if (held.slot == 0 && held.holder == held.rank && held.step <= remains[i].until) own.push_back(held);
    SourceChoice choice;
    choice.origin = Origin::generation;
    choice.generation = i;
    if (!remains[i].copies_only && choose(remains[i].layout, own, 0, choice)) return choice;
    if (!remains[i].untouched) break;
  }
  SourceChoice newest;
  newest.origin = newest_checkpoint >= 0 ? Origin::checkpoint : Origin::start;
  newest.step = std::max<std::int64_t>(newest_checkpoint, 0);
  for (std::size_t i = 0; i < remains.size(); ++i) {
    std::vector<Held> copies;
    for (const Held& held : remains[i].left)
      if (held.slot > 0 && held.step <= remains[i].until) copies.push_back(held);
    SourceChoice choice;
    choice.origin = Origin::snapshot;
    choice.generation = i;
    if (!choose(remains[i].layout, copies, newest_checkpoint, choice)) continue;
    if (newest.origin != Origin::snapshot || choice.step > newest.step) newest = std::move(choice);
  }
  return newest;
}

}  // namespace espalier::torchrt
