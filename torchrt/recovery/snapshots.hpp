// Copies of the state in host memory, of the same step on all ranks. Each rank makes its own copy.
// Another copy is kept on another node and outlives the loss of this node. The own copy is made at
// a step's boundary, while the next step computes: that step changes no state until its end. The
// copy is sent during the steps that follow.
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

// All ranks of the world have this object and call the same methods at the same steps. For one
// thread; it copies in a thread of its own. There are two slots of every copy: while one is
// written, the other stays as it is. Throws Error.
class Snapshots {
 public:
  // Reserves memory: twice the state of this rank and of the ranks for which it keeps copies.
  // `every`: steps between two snapshots. `place`: this rank's vault. Collective.
  Snapshots(RankState& state, World& world, Device& device, int every, const VaultPlace& place);
  // The number of marks that it needs beside those of the units.
  int marks() const { return 2 * static_cast<int>(copies_.size()); }
  // Call it before the first boundary().
  void deposit(Keeping& keeping);
  // Call it after `step`. It begins a snapshot after the world's first step and after every
  // multiple of `every`. First it waits until the snapshot before has arrived. Collective.
  void boundary(std::int64_t step);
  // True once a snapshot of this world is complete on this rank: its own copy and the copies it
  // keeps for others.
  bool complete() const { return complete_; }
  // Waits until the state may change: a copy under way reads it.
  void before_change();
  // Lets messages under way make progress.
  void poll();

 private:
  // The two copies of one rank's state.
  struct Copy {
    int rank = 0;
    std::vector<int> units;
    std::array<std::vector<std::shared_ptr<Allocation>>, 2> slots;  // by unit
    // Pins the slots, so that the device writes to them by itself.
    std::vector<std::shared_ptr<void>> pinned;
  };
  void reserve(int rank);
  void copied();
  int mark(std::size_t copy, std::size_t slot) const;

  RankState& state_;
  World& world_;
  Device& device_;
  std::unique_ptr<Device> host_;
  int every_, partner_;
  std::vector<Copy> copies_;  // this rank's own copy first
  Marks* marks_ = nullptr;
  HostExchange exchange_;
  std::size_t slot_ = 0;         // of the newest snapshot
  std::int64_t newest_ = -1;     // step of the newest snapshot
  std::int64_t under_way_ = -1;  // step of the copies being sent and received; -1: none
  bool complete_ = false;
  std::future<void> copying_;  // makes the newest copy; destroying it waits for that
};

}  // namespace espalier::torchrt
