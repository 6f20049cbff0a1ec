#include "torchrt/handoff/transfer/early.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

EarlyPlan::EarlyPlan(const TransferPlan& plan, const Routes& routes) : plan_(plan), routes_(routes) {
  find_units();
  for (const Message& message : routes.new_world) early_.push_back(units_.count(message.to) != 0);
}

// The rank holds the optimizer's state of the whole unit: then nothing of its parameters need be sent again.
bool EarlyPlan::whole(const MemoryId& memory) const {
  const StateLayout& state = plan_.shard(memory).state;
  return state.shard.count == static_cast<std::int64_t>(state.floats);
}

void EarlyPlan::find_units() {
  std::set<MemoryId> late;
  for (const auto* const copies : {&plan_.copies(), &plan_.late_copies()})
    for (const Copy& copy : *copies) late.insert(copy.to);
  for (const Message& message : routes_.old_world)
    if (message.to.unit != kRelay) late.insert(message.to);
  for (const Message& message : routes_.new_world) {
    units_.insert(message.to);
    const bool updates = whole(message.to) || plan_.shard(message.to).state.has_master();
    if (message.from.unit == kRelay || !updates) late.insert(message.to);
  }
  // Who forwards has the gradient, or the state of the step itself, as whom it forwards to needs it.
  std::size_t before = 0;
  do {
    before = late.size();
    for (const Message& message : routes_.new_world) {
      if (message.from.old || message.from.unit == kRelay) continue;
      if (late.count(message.from) == late.count(message.to) && whole(message.from) == whole(message.to)) continue;
      late.insert({message.from, message.to});
    }
  } while (late.size() != before);
  for (const MemoryId& memory : late) units_.erase(memory);
}

std::vector<std::vector<MessageOperation>> EarlyPlan::slices(int party, int slices) const {
  std::map<int, std::size_t> all, done;  // bytes by receiver
  for (std::size_t m = 0; m < early_.size(); ++m)
    if (early_[m]) all[routes_.new_world[m].receiver] += routes_.new_world[m].piece.bytes;
  std::vector<int> slice_of(early_.size(), -1);
  for (std::size_t m = 0; m < early_.size(); ++m) {
    if (!early_[m]) continue;
    const Message& message = routes_.new_world[m];
    std::size_t& before = done[message.receiver];
    slice_of[m] = static_cast<int>(before * static_cast<std::size_t>(slices) / all[message.receiver]);
    before += message.piece.bytes;
    if (message.after >= 0) slice_of[m] = std::max(slice_of[m], slice_of[static_cast<std::size_t>(message.after)]);
  }
  const std::vector<MessageOperation> operations = message_operations(plan_, routes_.new_world, party);
  std::vector<std::vector<MessageOperation>> result(static_cast<std::size_t>(slices));
  std::vector<std::pair<int, int>> places(operations.size(), {-1, -1});  // slice, and place in it
  for (std::size_t i = 0; i < operations.size(); ++i) {
    MessageOperation operation = operations[i];
    const int slice = slice_of[static_cast<std::size_t>(operation.number)];
    if (slice < 0) continue;
    if (operation.after >= 0) {
      const auto [source_slice, source] = places[static_cast<std::size_t>(operation.after)];
      operation.after = source_slice == slice ? source : -1;
    }
    std::vector<MessageOperation>& mine = result[static_cast<std::size_t>(slice)];
    places[i] = {slice, static_cast<int>(mine.size())};
    mine.push_back(std::move(operation));
  }
  return result;
}

std::vector<MessageOperation> EarlyPlan::last(int party) const {
  const std::vector<MessageOperation> operations = message_operations(plan_, routes_.new_world, party);
  std::vector<MessageOperation> result;
  // By operation where its gradient and the rest of it are.
  std::vector<std::pair<int, int>> places(operations.size(), {-1, -1});
  const auto add = [&](MessageOperation operation, int number, int after) {
    operation.number = number;
    operation.after = after;
    result.push_back(std::move(operation));
    return static_cast<int>(result.size()) - 1;
  };
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const MessageOperation& operation = operations[i];
    const auto m = static_cast<std::size_t>(operation.number);
    const Message& message = routes_.new_world[m];
    const auto after = operation.after < 0 ? std::pair(-1, -1) : places[static_cast<std::size_t>(operation.after)];
    // Of what goes through MPI the tag is the number: two for each message.
    const int number = 2 * operation.number;
    if (!early_[m]) {
      places[i].second = add(operation, number, after.second);
      continue;
    }
    const StateShard& shard = plan_.shard(operation.memory);
    const auto part = [&](StatePart wanted) {
      MessageOperation some = operation;
      some.blocks = blocks(plan_.fragment(message.piece), message.piece.first, message.piece.bytes, shard, wanted);
      some.bytes = 0;
      for (const Block& block : some.blocks) some.bytes += block.bytes();
      return some;
    };
    MessageOperation gradient = part(StatePart::first_moment);
    gradient.memory.unit = gradient_of(operation.memory.unit);
    for (Block& block : gradient.blocks)
      block.at = block.at - shard.state.first_moment_offset() +
                 static_cast<std::size_t>(shard.state.shard.first) * sizeof(float);
    if (gradient.bytes > 0) places[i].first = add(std::move(gradient), number, after.first);
    if (whole(message.to)) continue;
    MessageOperation parameters = part(StatePart::parameters);
    if (parameters.bytes > 0) places[i].second = add(std::move(parameters), number + 1, after.second);
  }
  return result;
}

}  // namespace espalier::torchrt
