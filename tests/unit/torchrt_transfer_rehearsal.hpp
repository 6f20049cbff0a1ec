// Plays a hand-off on arrays. Every party works through its operations and waits at each message
// for the other side.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "torchrt/handoff/transfer/early.hpp"

namespace espalier::torchrt {

using Memories = std::map<MemoryId, std::vector<char>>;

// Changes `memories` from the old generation's to both generations'. Adopted memory appears under
// both names. Each time one of the parties that can go on is drawn. Returns one sentence per
// problem: a circular wait, memory of another node, an allocation adopted twice, or one written
// while others may read it.
std::vector<std::string> rehearse(const TransferPlan& plan, const TransferRequest& request, Memories& memories,
                                  std::mt19937& random);

std::vector<MemoryId> filled_early(const TransferPlan& plan, const EarlyPlan& early);

// The same in two worlds. State that can be sent early is sent before the old generation makes a
// step. `step`: changes the old generation's `memories` to those after the step, and adds their
// gradients. `update`: makes the state after the step in a new rank's memory, from its gradient.
struct StepInBetween {
  std::function<void(Memories& memories)> step;
  std::function<void(Memories& memories, const MemoryId& memory)> update;
};
std::vector<std::string> rehearse_early(const TransferPlan& plan, const TransferRequest& request, Memories& memories,
                                        std::mt19937& random, const StepInBetween& between);

}  // namespace espalier::torchrt
