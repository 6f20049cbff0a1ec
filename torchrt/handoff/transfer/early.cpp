#include "torchrt/handoff/transfer/early.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

// Moves a block of the first moment to the same elements of the gradient. The gradient has all
// elements of the unit, the first moment only the shard's.
void move_to_gradient(Block& block, const StateLayout& state) {
  block.at = block.at - state.first_moment_offset() + static_cast<std::size_t>(state.shard.first) * sizeof(float);
}

}  // namespace

EarlyPlan::EarlyPlan(const TransferPlan& plan, const Routes& routes) : plan_(plan), routes_(routes) {
  std::size_t units = 0;
  for (const RankLayout& rank : plan.groups().after().layout.ranks) {
    first_.push_back(units);
    units += rank.units.size();
  }
  units_.assign(units, 0);
  find_units();
  for (const Message& message : routes.new_world) early_.push_back(units_[index(message.to)] != 0);
}

std::size_t EarlyPlan::index(const MemoryId& memory) const {
  const auto rank = static_cast<std::size_t>(memory.rank);
  const std::vector<int>& units = plan_.groups().after().layout.ranks[rank].units;  // ascending
  return first_[rank] +
         static_cast<std::size_t>(std::lower_bound(units.begin(), units.end(), memory.unit) - units.begin());
}

// True when the rank holds the optimizer's state of the whole unit. Its parameters then need not be
// sent again.
bool EarlyPlan::whole(const MemoryId& memory) const {
  const StateLayout& state = plan_.shard(memory).state;
  return state.shard.count == static_cast<std::int64_t>(state.floats);
}

void EarlyPlan::find_units() {
  std::vector<char> late(units_.size(), 0);
  bool changed = false;
  const auto make_late = [&](const MemoryId& memory) {
    char& one = late[index(memory)];
    changed = changed || one == 0;
    one = 1;
  };
  for (const Copy& copy : plan_.copies()) make_late(copy.to);
  for (const Message& message : routes_.old_world)
    if (message.to.unit != kRelay) make_late(message.to);
  for (const Copy& copy : plan_.late_copies()) units_[index(copy.to)] = 1;
  for (const Message& message : routes_.new_world) {
    units_[index(message.to)] = 1;
    const bool updates = whole(message.to) || plan_.shard(message.to).state.has_master();
    if (message.from.unit == kRelay || !updates) make_late(message.to);
  }
  // A rank can forward only what it holds. So the two ends are both early (the gradient is
  // forwarded) or both late (the state of the step itself is forwarded).
  const auto agree = [&](const Message& message) {
    if (message.from.old || message.from.unit == kRelay) return;
    if (late[index(message.from)] == late[index(message.to)] && whole(message.from) == whole(message.to)) return;
    make_late(message.from);
    make_late(message.to);
  };
  do {
    changed = false;
    std::for_each(routes_.new_world.begin(), routes_.new_world.end(), agree);
    // Both directions: one turn for a whole chain.
    std::for_each(routes_.new_world.rbegin(), routes_.new_world.rend(), agree);
    for (const Copy& copy : plan_.late_copies())
      if (late[index(copy.from)] != 0 || whole(copy.from) != whole(copy.to)) make_late(copy.to);
  } while (changed);
  for (std::size_t i = 0; i < units_.size(); ++i)
    if (late[i] != 0) units_[i] = 0;
}

std::vector<std::vector<MessageOperation>> EarlyPlan::slices(const std::vector<MessageOperation>& operations,
                                                             int slices) const {
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

EarlyCopies EarlyPlan::copies(int rank) const {
  EarlyCopies result;
  for (const Copy& copy : plan_.late_copies()) {
    if (copy.to.rank != rank) continue;
    const StateShard &from = plan_.shard(copy.from), &to = plan_.shard(copy.to);
    const auto part = [&](std::optional<StatePart> wanted) {
      return CopyOperation{
          copy.from, copy.to,
          block_pairs(plan_.fragment(copy.piece), copy.piece.first, copy.piece.bytes, from, to, wanted)};
    };
    if (units_[index(copy.to)] == 0) {
      result.late.push_back(part(std::nullopt));
      continue;
    }
    result.early.push_back(part(std::nullopt));
    CopyOperation gradient = part(StatePart::first_moment);
    gradient.from.unit = gradient_of(copy.from.unit);
    gradient.to.unit = gradient_of(copy.to.unit);
    for (BlockPair& pair : gradient.blocks) {
      move_to_gradient(pair.from, from.state);
      move_to_gradient(pair.to, to.state);
    }
    if (!gradient.blocks.empty()) result.last.push_back(std::move(gradient));
    if (whole(copy.to)) continue;
    CopyOperation parameters = part(StatePart::parameters);
    if (!parameters.blocks.empty()) result.last.push_back(std::move(parameters));
  }
  return result;
}

std::vector<MessageOperation> EarlyPlan::last(const std::vector<MessageOperation>& operations) const {
  std::vector<MessageOperation> result;
  // By operation: the places of its gradient and of its other part in `result`.
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
    // The number is the tag in MPI, so each message gets two.
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
    for (Block& block : gradient.blocks) move_to_gradient(block, shard.state);
    if (gradient.bytes > 0) places[i].first = add(std::move(gradient), number, after.first);
    if (whole(message.to)) continue;
    MessageOperation parameters = part(StatePart::parameters);
    if (parameters.bytes > 0) places[i].second = add(std::move(parameters), number + 1, after.second);
  }
  return result;
}

}  // namespace espalier::torchrt
