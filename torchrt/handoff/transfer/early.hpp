// What of a hand-off can be sent while the old generation still trains. A state and the next step's gradient are the
// next state, so that only the gradient is left for the pause: of a unit's parameters and moments a third of the bytes
// in float32, 4 of 14 in bfloat16. Where replicas divide the optimizer's state the parameters are sent once more, which
// needs masters that an update starts from (bfloat16). Pure.
#pragma once

#include <algorithm>
#include <vector>

#include "torchrt/handoff/transfer/operations.hpp"

namespace espalier::torchrt {

// The `unit` of the memory of a unit's gradient: float32, by element of the unit's parameters.
constexpr int gradient_of(int unit) { return -2 - unit; }  // and back
constexpr bool is_gradient(int unit) { return unit <= gradient_of(0); }

// Copies on a node from what messages have brought.
struct EarlyCopies {
  std::vector<CopyOperation> early;  // of the state, when the early messages are in
  std::vector<CopyOperation> last;   // of gradients, when the last ones are in, before the update
  std::vector<CopyOperation> late;   // after it
};

class EarlyPlan {
 public:
  // Early is what new ranks send of the old generation's memory to units that nothing else fills. What donors give is
  // not: they train themselves; nor what comes from the old generation on the same node.
  EarlyPlan(const TransferPlan& plan, const Routes& routes);

  // Whether any unit of a new rank is filled early; it then lacks one update.
  bool any() const { return std::find(early_.begin(), early_.end(), true) != early_.end(); }
  bool fills(int rank, int unit) const { return units_[index({false, rank, unit})] != 0; }
  // By place in Routes::new_world.
  bool early(std::size_t message) const { return early_[message]; }
  // Of `operations`, a rank's in the new world, the early ones, in `slices` slices that are as large as each other for
  // every receiver; what is forwarded is in no slice before the one that brings it.
  std::vector<std::vector<MessageOperation>> slices(const std::vector<MessageOperation>& operations, int slices) const;
  // In place of `operations`, when the early ones have brought the state of the step before.
  std::vector<MessageOperation> last(const std::vector<MessageOperation>& operations) const;
  // In place of all late copies.
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
