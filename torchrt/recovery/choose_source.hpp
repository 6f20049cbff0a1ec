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

struct SourceChoice {
  Origin origin = Origin::start;
  std::int64_t step = 0;  // checkpoint: at most; the newest may be damaged
  // generation, snapshot: by old rank, whose memory stands for its own, and in which slot. -1: nobody's.
  std::vector<int> holder, slot;
  std::vector<std::pair<int, int>> torn;  // old rank and unit: of no use
};

// The newest step that is whole: of every unit, TP rank and ZeRO part somebody holds the state after that very step.
// The lost generation's own state comes before snapshots, of which one older than the newest checkpoint is not used.
// `newest_checkpoint`: its step; -1: there is none.
SourceChoice choose_source(const GenerationLayout& lost, const std::vector<Held>& left, std::int64_t newest_checkpoint);

}  // namespace espalier::torchrt
