// Schedules of two chunks in a V, made by repeating what one micro-batch does (Qi et al. 2024, §3). Pure.
#pragma once

#include <optional>
#include <vector>

#include "planner/core/pipeline/schedule.hpp"

namespace espalier::pipeline {

// How one micro-batch moves through the V, in slots; F, I and W take one slot each.
struct Block {
  int forward_step = 1;   // from a rank's forward on the way down to the next rank's; on the way up it is 1
  int backward_step = 1;  // the same of the way down backward; on the way up it is 1
  int wait[3] = {};  // at the turns: before the forward on the way up, before backward, before backward on the way up
  int length(int ranks) const;  // from the first forward to the end of the last I
};

// Every micro-batch starts six slots after the one before: two chunks have three passes each. W takes the first slot
// that is free after its I. The order of the slots on each rank is the schedule. The block must be usable().
Schedule repeat(const Block& block, int ranks, int micro_batches);
// The passes of a rank meet no pass of the micro-batches before.
bool usable(const Block& block, int ranks);
// Chunks whose activations the fullest rank keeps when there are many micro-batches, counted from F to the end of W.
int activations(const Block& block, int ranks);

// The shortest usable block with these steps that keeps at most `limit` chunks' activations.
std::optional<Block> shortest_block(int forward_step, int backward_step, int ranks, int limit);

}  // namespace espalier::pipeline
