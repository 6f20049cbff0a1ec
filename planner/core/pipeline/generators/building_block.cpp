#include "planner/core/pipeline/generators/building_block.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "planner/core/pipeline/placement.hpp"

namespace espalier::pipeline {
namespace {

constexpr int kSlots = 6;  // of a micro-batch on a rank: two chunks, three passes each

// Slots of one micro-batch on one rank. F and I of the chunk on the way down the V, and of the one on the way up; then
// W.
struct Slots {
  int forward_down, forward_up, input_up, input_down;
  int weight_up = 0, weight_down = 0;
};

Slots slots_of(const Block& block, int rank, int ranks) {
  const int last = ranks - 1;
  const int turn = block.forward_step * last + 1 + block.wait[0];  // forward on the way up, of the last rank
  const int top = turn + last + 1 + block.wait[1];                 // backward, of the first rank
  const int bottom = top + block.backward_step * last + 1 + block.wait[2];
  Slots slots{block.forward_step * rank, turn + last - rank, top + block.backward_step * rank, bottom + last - rank};
  // The two residues that are left are W's: the first that is free after the I's, the one of the later I its own.
  std::array<bool, kSlots> taken{};
  for (const int slot : {slots.forward_down, slots.forward_up, slots.input_up, slots.input_down})
    taken[slot % kSlots] = true;
  const auto free_after = [&](int slot) {
    do ++slot;
    while (taken[slot % kSlots]);
    taken[slot % kSlots] = true;
    return slot;
  };
  if (std::count(taken.begin(), taken.end(), true) != 4) return slots;
  slots.weight_up = free_after(slots.input_up);
  slots.weight_down = free_after(slots.input_down);
  return slots;
}

}  // namespace

int Block::length(int ranks) const { return slots_of(*this, 0, ranks).input_down + 1; }

bool usable(const Block& block, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    if (slots_of(block, rank, ranks).weight_down == 0) return false;
  return true;
}

int activations(const Block& block, int ranks) {
  int most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const Slots slots = slots_of(block, rank, ranks);
    // A chunk is kept in [begin, end): so many of the micro-batches that begin every six slots are kept at `now`, far
    // from both ends.
    const auto kept = [](int begin, int end, int now) {
      const auto started = [now](int slot) { return (now - slot + 1000 * kSlots) / kSlots; };
      return started(begin) - started(end);
    };
    for (int now = 0; now < kSlots; ++now)
      most = std::max(most, kept(slots.forward_down, slots.weight_down + 1, now) +
                                kept(slots.forward_up, slots.weight_up + 1, now));
  }
  return most;
}

Schedule repeat(const Block& block, int ranks, int micro_batches) {
  Schedule schedule{micro_batches, v_placement(ranks), {}};
  for (int rank = 0; rank < ranks; ++rank) {
    const Slots slots = slots_of(block, rank, ranks);
    const int down = rank, up = 2 * ranks - 1 - rank;
    std::map<int, Action> order;
    for (int m = 0; m < micro_batches; ++m) {
      const auto put = [&](int slot, Compute kind, int chunk) { order[slot + kSlots * m] = {kind, chunk, m}; };
      put(slots.forward_down, Compute::forward, down);
      put(slots.forward_up, Compute::forward, up);
      put(slots.input_up, Compute::backward_input, up);
      put(slots.input_down, Compute::backward_input, down);
      put(slots.weight_up, Compute::backward_weight, up);
      put(slots.weight_down, Compute::backward_weight, down);
    }
    std::vector<Action>& list = schedule.actions.emplace_back();
    for (const auto& [slot, action] : order) list.push_back(action);
  }
  return schedule;
}

std::optional<Block> shortest_block(int forward_step, int backward_step, int ranks, int limit) {
  std::optional<Block> best;
  for (int code = 0; code < kSlots * kSlots * kSlots; ++code) {
    const Block block{forward_step, backward_step, {code % kSlots, code / kSlots % kSlots, code / kSlots / kSlots}};
    if (!usable(block, ranks) || activations(block, ranks) > limit) continue;
    if (!best || block.length(ranks) < best->length(ranks)) best = block;
  }
  return best;
}

}  // namespace espalier::pipeline
