// Which state a new generation goes on from when the one before is lost. Pure; every rank comes to the same choice.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "torchrt/handoff/transfer/groups.hpp"

namespace espalier::torchrt {

// One memory that is left: the state of `unit` as old rank `rank` had it after `step` (-1: torn), in the keeping of old
// rank `holder`. `slot` 0: what `rank` itself trained on; 1, 2, ...: copies made on the way.
struct Held {
  int holder = 0, rank = 0, unit = 0, slot = 0;
  std::int64_t step = -1;
  std::uint64_t bytes = 0;
  auto operator<=>(const Held&) const = default;
};

enum class Origin { generation, snapshot, checkpoint, start };
std::string to_string(Origin origin);

// What one generation left.
struct Remains {
  GenerationLayout layout;
  std::vector<Held> left;
  // It is known that no rank of it has changed anything: what the generation before it trained on is as it was.
  bool untouched = false;
  bool copies_only = false;        // what it trained on itself is a later generation's now
  std::int64_t until = INT64_MAX;  // state after later steps was given up
};

struct SourceChoice {
  Origin origin = Origin::start;
  std::size_t generation = 0;  // generation, snapshot: whose, by its place in what is left
  std::int64_t step = 0;       // checkpoint: at most; the newest may be damaged
  // generation, snapshot: by old rank, whose memory stands for its own, and in which slot. -1: nobody's.
  std::vector<int> holder, slot;
  std::vector<std::pair<int, int>> torn;  // old rank and unit: of no use
};

// The newest step that is whole: of every unit, TP rank and ZeRO part somebody holds the state after that very step.
// `remains`: of the lost generation, then of those before it, the newest first. Generations' own state comes before
// snapshots, of which one older than the newest checkpoint is not used; that of an earlier one counts while all after
// it are untouched. `newest_checkpoint`: its step; -1: there is none.
SourceChoice choose_source(const std::vector<Remains>& remains, std::int64_t newest_checkpoint);

}  // namespace espalier::torchrt
