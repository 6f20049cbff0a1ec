// Plays a hand-off on arrays: every party works through its own operations, waiting at each message for the other side.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "torchrt/handoff/transfer/operations.hpp"

namespace espalier::torchrt {

using Memories = std::map<MemoryId, std::vector<char>>;

// Changes `memories` from the old generation's to both generations'. Adopted memory appears under both names. Which of
// the parties that can go on does is drawn. Returns one sentence per problem: a circular wait, memory of another node,
// an allocation adopted twice, or written while others may read it.
std::vector<std::string> rehearse(const TransferPlan& plan, const TransferRequest& request, Memories& memories,
                                  std::mt19937& random);

}  // namespace espalier::torchrt
