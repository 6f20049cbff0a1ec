// Copies of the state in host memory, of the same step on all ranks: each rank's own, and one on another node, which
// outlives the loss of this one. Made at a step's boundary: copied while the next step computes, which changes nothing
// of the state until its end, and sent beside the steps that follow.
#pragma once

#include <array>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "torchrt/comm/host_exchange.hpp"
#include "torchrt/rank_state.hpp"
#include "torchrt/recovery/keeping.hpp"
#include "torchrt/recovery/partners.hpp"

namespace espalier::torchrt {

// All ranks of the world have one and call the same methods at the same steps. One thread, beside its own. There are
// two of every copy: while one is being made or received the other stays as it is. Throws Error.
class Snapshots {
 public:
  // Reserves the memory: twice the state of this rank and of those it keeps copies for. `every`: steps between two.
  // `place`: of this rank's vault. Collective.
  Snapshots(RankState& state, World& world, Device& device, int every, const VaultPlace& place);
  // How many marks it needs, beside those of the units.
  int marks() const { return 2 * static_cast<int>(copies_.size()); }
  // Before anything is copied.
  void deposit(Keeping& keeping);
  // After `step`: begins to copy the state when it is time, at first after the first step. A copy that has not arrived
  // yet by then is waited for. Collective.
  void boundary(std::int64_t step);
  // Of some step of this world all that this rank makes and keeps for others is there.
  bool complete() const { return complete_; }
  // Until what is being copied may change.
  void before_change();
  // Lets what is being sent progress.
  void poll();

 private:
  // A rank's state.
  struct Copy {
    int rank = 0;
    std::vector<int> units;
    std::array<std::vector<std::shared_ptr<Allocation>>, 2> slots;  // by unit
    std::vector<std::shared_ptr<void>> pinned;                      // of the slots, where the device writes to them
  };
  void reserve(int rank);
  void copied();
  int mark(std::size_t copy, std::size_t slot) const;

  RankState& state_;
  World& world_;
  Device& device_;
  std::unique_ptr<Device> host_;
  int every_, partner_;
  std::vector<Copy> copies_;  // its own first
  Marks* marks_ = nullptr;
  HostExchange exchange_;
  std::size_t slot_ = 0;         // of the newest
  std::int64_t newest_ = -1;     // its step
  std::int64_t under_way_ = -1;  // the step of what is being sent and received
  bool complete_ = false;
  std::future<void> copying_;  // the newest, while it is; waits for it when it goes
};

}  // namespace espalier::torchrt
