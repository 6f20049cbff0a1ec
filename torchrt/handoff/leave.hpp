// The old generation's half of a hand-off.
#pragma once

#include <map>
#include <memory>

#include "torchrt/comm/world.hpp"
#include "torchrt/handoff/state_socket.hpp"
#include "torchrt/handoff/transfer_plan.hpp"
#include "torchrt/rank_state.hpp"

namespace espalier::torchrt {

// While it lives, the server also offers the pieces that collapsed onto this rank; its end forgets them, and the old
// generation is as it was. Collective over the old world. Throws Error.
class Departure {
 public:
  Departure(RankState& state, World& world, Device& device, StateServer& server, const Plan& next);
  ~Departure();
  Departure(const Departure&) = delete;
  Departure& operator=(const Departure&) = delete;

 private:
  StateServer& server_;
  std::map<Piece, std::unique_ptr<Allocation>> collapsed_;
};

}  // namespace espalier::torchrt
