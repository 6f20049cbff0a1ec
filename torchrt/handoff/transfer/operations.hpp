// What one party of a hand-off does, as bytes of allocations. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "torchrt/handoff/transfer/routes.hpp"

namespace espalier::torchrt {

struct CopyOperation {
  MemoryId from, to;
  std::vector<BlockPair> blocks;
};

// Of a new rank.
struct RankOperations {
  std::vector<Adoption> adoptions;
  std::vector<int> fresh;  // units for which it needs zeroed memory of its own
  std::vector<CopyOperation> copies;
  std::vector<CopyOperation> late_copies;  // when all messages to ranks of the node are in
};

RankOperations operations(const TransferPlan& plan, int rank);

// The message is the bytes of `blocks` one after the other, on both sides.
struct MessageOperation {
  int number = 0;  // in the list of all parties' messages
  bool sends = false;
  int peer = 0;  // party
  MemoryId memory;
  std::size_t bytes = 0;
  std::vector<Block> blocks;
  int after = -1;      // place among the party's operations of what is forwarded here; -1: nothing is
  bool given = false;  // from what the old generation's world brings, perhaps forwarded: not there before it
};

// What `party` sends and receives of `messages`, in their order: those of the plan, or of one of its routes.
std::vector<MessageOperation> message_operations(const TransferPlan& plan, const std::vector<Message>& messages,
                                                 int party);

struct Halves {
  std::vector<MessageOperation> own, given;
};
// The same operations in the same order: first what can travel while the old generation's world still brings what
// leaves nodes. All parties cut alike.
Halves halves(const std::vector<MessageOperation>& operations);

}  // namespace espalier::torchrt
