// The old generation's half of a hand-off. GPUs that the job leaves give state that the new
// generation cannot reach.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "torchrt/comm/world.hpp"
#include "torchrt/handoff/exchange.hpp"
#include "torchrt/handoff/gpu_reach.hpp"
#include "torchrt/handoff/handoff_plan.hpp"
#include "torchrt/handoff/state_socket.hpp"
#include "torchrt/handoff/transfer/operations.hpp"
#include "torchrt/rank_state.hpp"

namespace espalier::torchrt {

// Writes only into memory of the new generation. While the object lives, the server offers the
// written memories. A new rank that is gone is no error: data for it is dropped.
class Departure {
 public:
  explicit Departure(StateServer& server) : server_(server) {}
  ~Departure();
  // Call it once. `address_of`: the state socket of a new rank. `stands` is called only if state
  // leaves a node: all old ranks stand then and are about to give. Collective over the old world.
  //
  // Returns a text that says what this rank lacks to give its part, such as memory. In that case no
  // rank has given anything, and the state is unchanged. The text is empty on a rank that lacks
  // nothing.
  //
  // Throws Error. The object then holds memory that a GPU may still use, and destroying it may wait
  // for ranks that are gone.
  std::string give(RankState& state, World& world, Device& device, const wire::Switch& request,
                   const std::function<std::string(int new_rank)>& address_of, const std::function<void()>& stands);
  Departure(const Departure&) = delete;
  Departure& operator=(const Departure&) = delete;

 private:
  // The part of give() that needs no other old rank.
  void prepare(const HandoffPlan& plan, Device& device, const std::function<std::string(int)>& address_of);

  StateServer& server_;
  std::vector<MessageOperation> messages_;
  // Memory of new ranks; null: the rank is gone.
  std::map<MemoryId, std::unique_ptr<Allocation>> guests_;
  std::unique_ptr<ExchangeStages> stages_;
};

}  // namespace espalier::torchrt
