// The part of a hand-off that can be sent while the old generation still trains. The state after a
// step and the next step's gradient give the next state. So only the gradient is left for the
// pause. That is a third of the bytes of a unit's parameters and moments in float32, and 4 of 14
// bytes in bfloat16. Where replicas divide the optimizer's state, the parameters are sent once
// more; that needs master weights from which an update starts (bfloat16). Pure.
#pragma once

#include <algorithm>
#include <vector>

#include "torchrt/handoff/transfer/operations.hpp"

namespace espalier::torchrt {

// The `unit` of the memory of a unit's gradient: float32, one element for each of the unit's
// parameters.
constexpr int gradient_of(int unit) { return -2 - unit; }  // and from the gradient back to the unit
constexpr bool is_gradient(int unit) { return unit <= gradient_of(0); }

// Copies on a node, from memory that messages have filled.
struct EarlyCopies {
  std::vector<CopyOperation> early;  // of the state, after the early messages
  // Of gradients and parameters, after the last messages, before the update.
  std::vector<CopyOperation> last;
  std::vector<CopyOperation> late;  // of the units that are not early, after the update
};

class EarlyPlan {
 public:
  // Early messages go from the old generation's memory, by new ranks, to units that only such
  // messages fill. Donors' messages are not early, because donors are training. Messages to a unit
  // are not early when the unit also takes state from the old generation on its own node.
  EarlyPlan(const TransferPlan& plan, const Routes& routes);

  // True when some unit of a new rank is filled early. Such a unit then lacks one update.
  bool any() const { return std::find(early_.begin(), early_.end(), true) != early_.end(); }
  bool fills(int rank, int unit) const { return units_[index({false, rank, unit})] != 0; }
  // `message`: its place in Routes::new_world.
  bool early(std::size_t message) const { return early_[message]; }
  // The early ones of `operations` (one rank's, in the new world), cut into `slices` slices. For
  // every receiver all slices are about equally large. A forwarded message is in no earlier slice
  // than the message that brings it.
  std::vector<std::vector<MessageOperation>> slices(const std::vector<MessageOperation>& operations, int slices) const;
  // The messages for the pause, when the early messages have brought the state of the step before.
  // They take the place of `operations`.
  std::vector<MessageOperation> last(const std::vector<MessageOperation>& operations) const;
  // The copies of `rank`. They take the place of all late copies.
  EarlyCopies copies(int rank) const;

 private:
  void find_units();
  std::size_t index(const MemoryId& memory) const;
  bool whole(const MemoryId& memory) const;

  const TransferPlan& plan_;
  const Routes& routes_;
  std::vector<std::size_t> first_;  // by new rank: the index of its first unit
  std::vector<char> units_;         // by index
  std::vector<bool> early_;
};

}  // namespace espalier::torchrt
