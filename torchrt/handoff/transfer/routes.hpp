// Which generation's world carries each message. A world connects the ranks of one generation only, so what donors give
// travels in the old one: to a rank of the receiver's node, which writes it into the receiver's memory. On its way to a
// node that is new it passes through a relay: memory of a new rank on a node of both generations. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "torchrt/handoff/transfer/plan.hpp"

namespace espalier::torchrt {

// The `unit` of a relay's memory.
constexpr int kRelay = -1;

struct Routes {
  // Both in an order as that of TransferPlan::messages(), all of `old_world` before `new_world`. Senders and receivers
  // are ranks of that world; `to` of a message in the old one belongs to a new rank on the receiver's node.
  std::vector<Message> old_world, new_world;
  std::vector<std::size_t> relay_bytes;  // by new rank
};

// Whether the job leaves a node: without, there are no donors, and nothing travels in the old world.
bool leaves_nodes(const Plan& before, const Plan& after);

// Throws Error when something must pass through a relay and the generations share no node.
Routes make_routes(const TransferPlan& plan, const TransferRequest& request);

}  // namespace espalier::torchrt
