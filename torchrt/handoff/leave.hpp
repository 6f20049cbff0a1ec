// The old generation's half of a hand-off: GPUs that the job leaves give what the new generation cannot reach.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "torchrt/comm/world.hpp"
#include "torchrt/handoff/state_socket.hpp"
#include "torchrt/handoff/transfer/plan.hpp"
#include "torchrt/rank_state.hpp"

namespace espalier::torchrt {

// Writes into memory of the new generation only, and while it lives the server says what it wrote. A new rank that is
// not there any more is no error: what was meant for it is dropped. Collective over the old world. Throws Error.
class Departure {
 public:
  // `address_of`: the state socket of a new rank.
  Departure(RankState& state, World& world, Device& device, StateServer& server, const Plan& next,
            const std::function<std::string(int new_rank)>& address_of);
  ~Departure();
  Departure(const Departure&) = delete;
  Departure& operator=(const Departure&) = delete;

 private:
  StateServer& server_;
  std::map<MemoryId, std::unique_ptr<Allocation>> guests_;  // memory of new ranks; null: gone
};

}  // namespace espalier::torchrt
