// Chooses the generation whose world carries each message. A world connects the ranks of one
// generation only. So donors' messages travel in the old world, to an old rank on the receiver's
// node. That rank writes the message into the receiver's memory. A message to a node that is new to
// the job first passes through a relay: memory of a new rank on a node of both generations. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "torchrt/handoff/transfer/plan.hpp"

namespace espalier::torchrt {

// The `unit` of a relay's memory.
constexpr int kRelay = -1;

struct Routes {
  // Both lists are in an order like that of TransferPlan::messages(). All of `old_world` comes
  // before `new_world`. Senders and receivers are ranks of the list's world. In `old_world`, `to`
  // belongs to a new rank on the receiver's node.
  std::vector<Message> old_world, new_world;
  std::vector<std::size_t> relay_bytes;  // by new rank
};

// True when the job leaves a node. Otherwise there are no donors, and no message travels in the old
// world.
bool leaves_nodes(const Plan& before, const Plan& after);

// Throws Error when a message needs a relay and the generations share no node.
Routes make_routes(const TransferPlan& plan, const TransferRequest& request);

}  // namespace espalier::torchrt
