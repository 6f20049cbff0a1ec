// Chooses the state from which a new generation goes on after a loss. Pure: every rank makes the
// same choice.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "torchrt/handoff/transfer/groups.hpp"

namespace espalier::torchrt {

// One memory that is left: the state of `unit` of old rank `rank` after `step` (-1: torn). Old rank
// `holder` deposited it. `slot` 0 is the memory in which `rank` trained; 1, 2, ... are copies made
// meanwhile.
struct Held {
  int holder = 0, rank = 0, unit = 0, slot = 0;
  std::int64_t step = -1;
  std::uint64_t bytes = 0;
  auto operator<=>(const Held&) const = default;
};

enum class Origin { generation, snapshot, checkpoint, start };
std::string to_string(Origin origin);

// The memory left by one generation.
struct Remains {
  GenerationLayout layout;
  std::vector<Held> left;
  // It is known that no rank of this generation changed any state: the state of the generation
  // before it is as it was.
  bool untouched = false;
  bool copies_only = false;        // its own state belongs to a later generation now
  std::int64_t until = INT64_MAX;  // state after later steps was given up
};

struct SourceChoice {
  Origin origin = Origin::start;
  std::size_t generation = 0;  // for generation, snapshot: its place in `remains`
  std::int64_t step = 0;       // for checkpoint: an upper limit, because the newest may be damaged
  // For generation, snapshot: by old rank, the holder and slot of the memory to use. -1: none.
  std::vector<int> holder, slot;
  std::vector<std::pair<int, int>> torn;  // old rank and unit: memory of no use
};

// Chooses the newest whole state. A step is whole if for every unit, TP rank and ZeRO part some
// memory holds the state after exactly this step. `remains`: the lost generation, then those before
// it, the newest first. `newest_checkpoint`: its step; -1: none.
//
// A generation's own state comes before snapshots. The own state of an earlier generation counts
// only if all later generations are untouched. A snapshot older than the newest checkpoint is not
// used.
SourceChoice choose_source(const std::vector<Remains>& remains, std::int64_t newest_checkpoint);

}  // namespace espalier::torchrt
