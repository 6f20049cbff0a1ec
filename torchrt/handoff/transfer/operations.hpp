// What one party of a hand-off does, as bytes of allocations. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "torchrt/handoff/transfer/plan.hpp"

namespace espalier::torchrt {

struct CopyOperation {
  MemoryId from, to;
  std::vector<BlockPair> blocks;
};

// The message is the bytes of `blocks` one after the other, on both sides.
struct MessageOperation {
  int number = 0;  // in TransferPlan::messages()
  bool sends = false;
  int peer = 0;  // party
  MemoryId memory;
  std::size_t bytes = 0;
  std::vector<Block> blocks;
  int after = -1;  // place in RankOperations::messages of what is forwarded here; -1: nothing is
};

struct RankOperations {
  std::vector<Adoption> adoptions;
  std::vector<int> fresh;  // units for which the rank needs zeroed memory of its own
  std::vector<CopyOperation> copies;
  std::vector<MessageOperation> messages;  // in the global order
  std::vector<CopyOperation> late_copies;  // when all messages to ranks of the node are in
  std::vector<MemoryId> others;            // ascending: memory of other ranks on the node that it reads
};

// `party`: a new rank or a donor.
RankOperations operations(const TransferPlan& plan, int party);

}  // namespace espalier::torchrt
