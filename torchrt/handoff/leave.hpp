// The old generation's half of a hand-off: GPUs that the job leaves give what the new generation cannot reach.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "torchrt/comm/world.hpp"
#include "torchrt/handoff/exchange.hpp"
#include "torchrt/handoff/handoff_plan.hpp"
#include "torchrt/handoff/state_socket.hpp"
#include "torchrt/handoff/transfer/operations.hpp"
#include "torchrt/rank_state.hpp"

namespace espalier::torchrt {

// Writes into memory of the new generation only, and while it lives the server says what it wrote. A new rank that is
// not there any more is no error: what was meant for it is dropped.
class Departure {
 public:
  explicit Departure(StateServer& server) : server_(server) {}
  ~Departure();
  // Once. `address_of`: the state socket of a new rank. `stands` is called where something leaves a node, when all old
  // ranks stand and are about to give it. Collective over the old world. Returns what this rank lacks to
  // give its part, such as memory, in words: then nobody has given anything, on other ranks too, and the state is as it
  // was. Throws Error; then the object holds memory that a GPU may still be using, and to destroy it may wait for ranks
  // that are gone.
  std::string give(RankState& state, World& world, Device& device, const Plan& next,
                   const std::function<std::string(int new_rank)>& address_of, const std::function<void()>& stands);
  Departure(const Departure&) = delete;
  Departure& operator=(const Departure&) = delete;

 private:
  // What needs no other rank.
  void prepare(const HandoffPlan& plan, Device& device, const std::function<std::string(int)>& address_of);

  StateServer& server_;
  std::vector<MessageOperation> messages_;
  std::map<MemoryId, std::unique_ptr<Allocation>> guests_;  // memory of new ranks; null: gone
  std::unique_ptr<ExchangeStages> stages_;
};

}  // namespace espalier::torchrt
