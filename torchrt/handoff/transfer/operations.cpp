#include "torchrt/handoff/transfer/operations.hpp"

#include <map>
#include <set>

namespace espalier::torchrt {

namespace {

CopyOperation copy_operation(const TransferPlan& plan, const Copy& copy) {
  return {copy.from, copy.to,
          block_pairs(plan.fragment(copy.piece), copy.piece.first, copy.piece.bytes, plan.shard(copy.from),
                      plan.shard(copy.to))};
}

std::vector<Block> message_blocks(const TransferPlan& plan, const Message& message, const MemoryId& memory) {
  const std::size_t bytes = message.piece.bytes;
  if (memory.unit == kRelay) return {{message.relay_at, bytes, 1, bytes}};
  return blocks(plan.fragment(message.piece), message.piece.first, bytes, plan.shard(memory));
}

}  // namespace

RankOperations operations(const TransferPlan& plan, int rank) {
  RankOperations result;
  std::set<int> adopted;
  for (const Adoption& adoption : plan.adoptions()) {
    if (adoption.rank != rank) continue;
    adopted.insert(adoption.unit);
    result.adoptions.push_back(adoption);
  }
  for (const int unit : plan.groups().after().layout.ranks[static_cast<std::size_t>(rank)].units)
    if (adopted.count(unit) == 0) result.fresh.push_back(unit);
  for (const Copy& copy : plan.copies())
    if (copy.to.rank == rank) result.copies.push_back(copy_operation(plan, copy));
  for (const Copy& copy : plan.late_copies())
    if (copy.to.rank == rank) result.late_copies.push_back(copy_operation(plan, copy));
  return result;
}

std::vector<MessageOperation> message_operations(const TransferPlan& plan, const std::vector<Message>& messages,
                                                 int party) {
  std::vector<MessageOperation> result;
  std::map<int, int> places;  // by number
  std::vector<bool> given;    // by number
  for (std::size_t m = 0; m < messages.size(); ++m) {
    const Message& message = messages[m];
    given.push_back(message.after >= 0 ? given[static_cast<std::size_t>(message.after)] : !message.from.old);
    const bool sends = message.sender == party;
    if (!sends && message.receiver != party) continue;
    MessageOperation operation;
    operation.number = static_cast<int>(m);
    operation.given = given.back();
    operation.sends = sends;
    operation.peer = sends ? message.receiver : message.sender;
    operation.memory = sends ? message.from : message.to;
    operation.bytes = message.piece.bytes;
    operation.blocks = message_blocks(plan, message, operation.memory);
    if (sends && message.after >= 0) operation.after = places.at(message.after);
    places[operation.number] = static_cast<int>(result.size());
    result.push_back(std::move(operation));
  }
  return result;
}

Halves halves(const std::vector<MessageOperation>& operations) {
  Halves result;
  std::vector<int> places;  // in its half
  for (const MessageOperation& operation : operations) {
    std::vector<MessageOperation>& half = operation.given ? result.given : result.own;
    places.push_back(static_cast<int>(half.size()));
    half.push_back(operation);
    if (operation.after >= 0) half.back().after = places[static_cast<std::size_t>(operation.after)];
  }
  return result;
}

}  // namespace espalier::torchrt
