// One party's part of a hand-off, as bytes of allocations. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "torchrt/handoff/transfer/routes.hpp"

namespace espalier::torchrt {

struct CopyOperation {
  MemoryId from, to;
  std::vector<BlockPair> blocks;
};

// The operations of one new rank.
struct RankOperations {
  std::vector<Adoption> adoptions;
  std::vector<int> fresh;  // units for which the rank needs new zeroed memory
  std::vector<CopyOperation> copies;
  std::vector<CopyOperation> late_copies;  // after all messages to the node's ranks
};

RankOperations operations(const TransferPlan& plan, int rank);

// The message is the bytes of `blocks`, one block after the other, on both sides.
struct MessageOperation {
  int number = 0;  // in the list of all parties' messages
  bool sends = false;
  int peer = 0;  // party
  MemoryId memory;
  std::size_t bytes = 0;
  std::vector<Block> blocks;
  // Place in the party's operations of the receive that is forwarded here; -1: none.
  int after = -1;
  bool given = false;  // the data comes through the old generation's world, perhaps forwarded
};

// The sends and receives of `party` in `messages`, in their order. `messages` are the plan's or one
// route's.
std::vector<MessageOperation> message_operations(const TransferPlan& plan, const std::vector<Message>& messages,
                                                 int party);

struct Halves {
  std::vector<MessageOperation> own, given;
};
// The same operations in the same order, in two halves. `own` can travel while the old generation's
// world still brings state from the nodes it leaves. `given` needs that state. All parties cut
// alike.
Halves halves(const std::vector<MessageOperation>& operations);

}  // namespace espalier::torchrt
