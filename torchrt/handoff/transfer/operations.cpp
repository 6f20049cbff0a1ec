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

}  // namespace

RankOperations operations(const TransferPlan& plan, int party) {
  RankOperations result;
  const bool donates = plan.is_donor(party);
  std::set<MemoryId> others;
  const auto read = [&](const MemoryId& memory) {
    const bool own = memory.old ? donates && memory.rank == plan.donor(party) : memory.rank == party;
    if (!own) others.insert(memory);
  };
  if (!donates) {
    std::set<int> adopted;
    for (const Adoption& adoption : plan.adoptions()) {
      if (adoption.rank != party) continue;
      adopted.insert(adoption.unit);
      result.adoptions.push_back(adoption);
    }
    for (const int unit : plan.groups().after().layout.ranks[static_cast<std::size_t>(party)].units)
      if (adopted.count(unit) == 0) result.fresh.push_back(unit);
    for (const bool late : {false, true})
      for (const Copy& copy : late ? plan.late_copies() : plan.copies()) {
        if (copy.to.rank != party) continue;
        read(copy.from);
        (late ? result.late_copies : result.copies).push_back(copy_operation(plan, copy));
      }
  }
  std::map<int, int> places;  // of messages, by number
  for (std::size_t m = 0; m < plan.messages().size(); ++m) {
    const Message& message = plan.messages()[m];
    const bool sends = message.sender == party;
    if (!sends && message.receiver != party) continue;
    MessageOperation operation;
    operation.number = static_cast<int>(m);
    operation.sends = sends;
    operation.peer = sends ? message.receiver : message.sender;
    operation.memory = sends ? message.from : message.to;
    operation.bytes = message.piece.bytes;
    operation.blocks =
        blocks(plan.fragment(message.piece), message.piece.first, message.piece.bytes, plan.shard(operation.memory));
    if (sends) read(operation.memory);
    if (sends && message.after >= 0) operation.after = places.at(message.after);
    places[operation.number] = static_cast<int>(result.messages.size());
    result.messages.push_back(std::move(operation));
  }
  result.others.assign(others.begin(), others.end());
  return result;
}

}  // namespace espalier::torchrt
