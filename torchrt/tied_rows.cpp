#include "torchrt/tied_rows.hpp"

namespace espalier::torchrt {

namespace {

// Above the tags of activations and gradients.
constexpr int kTiedTag = 1 << 20;

Address address(const Op& op) { return {op.peer, lane_of(op), kTiedTag}; }

}  // namespace

TiedRows::TiedRows(const Engine& engine, const std::vector<Op>& ops) : engine_(engine) { reserve(ops); }

// Allocates before a step begins: allocating waits for all work under way on the GPU. With tied
// rows under way, two ranks would each wait for the other's receive.
void TiedRows::reserve(const std::vector<Op>& ops) {
  std::size_t held = 0;
  for (const Op& op : ops)
    if (op.kind == OpKind::receive_tied) {
      if (op.peer != engine_.world.rank()) memory_for(held, op);
      ++held;
    } else if (op.kind == OpKind::add_tied) {
      --held;
    }
}

// Memory for the rows of `op`, while `held` other blocks of rows are in use.
Buffer TiedRows::memory_for(std::size_t held, const Op& op) {
  const std::size_t count = static_cast<std::size_t>(op.count) * static_cast<std::size_t>(engine_.config.model.hidden);
  if (memory_.size() <= held) memory_.resize(held + 1);
  std::unique_ptr<Allocation>& memory = memory_[held];
  if (!memory || memory->bytes() < count * sizeof(float))
    memory = engine_.device.allocate(count * sizeof(float), "espalier-tied");
  return {memory->data(), count, DataType::float32};
}

void TiedRows::send(const Op& op) {
  if (op.peer == engine_.world.rank()) return;
  engine_.fabric.transport().post(engine_.compute.tied_gradient(op.unit, {op.first, op.count}), address(op), {});
}

void TiedRows::receive(const Op& op) {
  Rows& rows = held_[{op.unit, op.first}];
  if (op.peer == engine_.world.rank()) {
    const int other = op.unit == 0 ? engine_.layout.units - 1 : 0;
    rows.buffer = engine_.compute.tied_gradient(other, {op.first, op.count});
    return;
  }
  rows.buffer = memory_for(held_.size() - 1, op);
  rows.arrival = engine_.fabric.transport().start_receive(rows.buffer, address(op));
}

TiedRows::Rows TiedRows::take(const Op& op) {
  auto rows = held_.extract({op.unit, op.first});
  if (rows.mapped().arrival) rows.mapped().arrival->wait();
  return std::move(rows.mapped());
}

}  // namespace espalier::torchrt
