// Finds the state of a new generation after a loss.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "torchrt/handoff/arrive.hpp"
#include "torchrt/recovery/find_survivors.hpp"

namespace espalier::torchrt {

class Recovery {
 public:
  // Ends the processes of the lost generation on this node. Chooses with all ranks the state from which to go on. A
  // damaged checkpoint is passed over and renamed; one that some rank cannot read now is only passed over. `lost`: the
  // lost generation, then earlier ones whose state may serve, the newest first. `after`: the new generation's plan,
  // as_reached(). Collective. Throws Error.
  Recovery(RankState& state, World& world, Device& device, const std::vector<LostGeneration>& lost, Plan after,
           const std::function<void(const std::string&)>& tell);

  const SourceChoice& choice() const { return choice_; }
  // Steps of checkpoints that were refused before the choice.
  const std::vector<std::int64_t>& damaged() const { return damaged_; }
  // Turns the chosen memory into the state of the new ranks. Only for a choice that has memory.
  // This object must outlive the result.
  std::unique_ptr<Arrival> arrival(AddressOf address_of) const;
  // The last agreed step with its loss, if it is the chosen step: perhaps no rank has recorded it.
  // Collective.
  wire::VaultMarks agreement() const { return source().agreement(world_, choice_.step); }

 private:
  void choose(const std::vector<Remains>& remains, const std::function<void(const std::string&)>& tell);
  // Whether the state that is left, though it is not whole, is kept for the next attempt. `silent`: this rank asked a
  // vault that did not answer.
  bool may_be_completed(bool silent);
  std::unique_ptr<Allocation> map(const MemoryId& memory) const;
  const Survivors& source() const { return survivors_[choice_.generation]; }

  RankState& state_;
  World& world_;
  Device& device_;
  Plan after_;
  std::vector<Survivors> survivors_;  // in the order of the given generations
  SourceChoice choice_;
  std::vector<std::int64_t> damaged_;
};

}  // namespace espalier::torchrt
