// What of a hand-off can be sent while the old generation still trains. A state and the next step's gradient are the
// next state, so that only the gradient is left for the pause: of a unit's parameters and moments a third of the bytes
// in float32, 4 of 14 in bfloat16. Where replicas divide the optimizer's state the parameters are sent once more, which
// needs masters that an update starts from (bfloat16). Pure.
#pragma once

#include <set>
#include <vector>

#include "torchrt/handoff/transfer/operations.hpp"

namespace espalier::torchrt {

// The `unit` of the memory of a unit's gradient: float32, by element of the unit's parameters.
constexpr int gradient_of(int unit) { return -2 - unit; }  // and back
constexpr bool is_gradient(int unit) { return unit <= gradient_of(0); }

class EarlyPlan {
 public:
  // Early is what new ranks send of the old generation's memory to units that nothing else fills. What donors give is
  // not: they train themselves.
  EarlyPlan(const TransferPlan& plan, const Routes& routes);

  // The new ranks' units that are filled early, and then lack one update.
  const std::set<MemoryId>& units() const { return units_; }
  // By place in Routes::new_world.
  bool early(std::size_t message) const { return early_[message]; }
  // Of the early messages, in `slices` slices that are as large as each other for every receiver; what is forwarded is
  // in no slice before the one that brings it.
  std::vector<std::vector<MessageOperation>> slices(int party, int slices) const;
  // In place of all messages of the new world, when the early ones have brought the state of the step before.
  std::vector<MessageOperation> last(int party) const;

 private:
  void find_units();
  bool whole(const MemoryId& memory) const;

  const TransferPlan& plan_;
  const Routes& routes_;
  std::set<MemoryId> units_;
  std::vector<bool> early_;
};

}  // namespace espalier::torchrt
