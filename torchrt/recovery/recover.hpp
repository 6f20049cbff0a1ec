// A new generation finds its state when the one before is lost.
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
  // Ends what is left of the lost generation on this node, and chooses with all ranks where to go on from. `lost`: it,
  // then those before it that may have left what is needed, the newest first. Collective; throws Error.
  Recovery(RankState& state, World& world, Device& device, const std::vector<LostGeneration>& lost,
           const std::function<void(const std::string&)>& tell);

  const SourceChoice& choice() const { return choice_; }
  // Of a choice that has memory: how it becomes the state of the new ranks. The object outlives it.
  std::unique_ptr<Arrival> arrival(AddressOf address_of) const;
  // The step that was agreed upon last, when it is the one chosen: its loss, though nobody may have recorded it.
  // Collective.
  wire::VaultMarks agreement() const { return source().agreement(world_, choice_.step); }

 private:
  std::unique_ptr<Allocation> map(const MemoryId& memory) const;
  const Survivors& source() const { return survivors_[choice_.generation]; }

  RankState& state_;
  World& world_;
  Device& device_;
  std::vector<Survivors> survivors_;  // as the generations were given
  SourceChoice choice_;
};

}  // namespace espalier::torchrt
