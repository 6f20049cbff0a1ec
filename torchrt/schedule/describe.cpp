#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

Lane lane_of(const Op& op) {
  switch (op.kind) {
    case OpKind::send_activation:
    case OpKind::receive_activation:
      return op.returns ? Lane::forward_return : Lane::forward;
    case OpKind::send_gradient:
    case OpKind::receive_gradient:
      return op.returns ? Lane::backward_return : Lane::backward;
    case OpKind::send_tied:
      return op.unit == 0 ? Lane::forward : Lane::backward;
    case OpKind::receive_tied:
      return op.unit == 0 ? Lane::backward : Lane::forward;
    default:
      return Lane::forward;
  }
}

bool is_send(OpKind kind) {
  return kind == OpKind::send_activation || kind == OpKind::send_gradient || kind == OpKind::send_tied;
}

bool is_receive(OpKind kind) {
  return kind == OpKind::receive_activation || kind == OpKind::receive_gradient || kind == OpKind::receive_tied;
}

Peers peers(const std::vector<Op>& ops, int self) {
  Peers found;
  for (const Op& op : ops)
    if ((is_send(op.kind) || is_receive(op.kind)) && op.peer != self) found[lane_of(op)].insert(op.peer);
  return found;
}

std::string describe(OpKind kind) {
  switch (kind) {
    case OpKind::receive_activation:
      return "receive activation";
    case OpKind::forward:
      return "forward";
    case OpKind::send_activation:
      return "send activation";
    case OpKind::receive_gradient:
      return "receive gradient";
    case OpKind::backward:
      return "backward";
    case OpKind::weight_gradient:
      return "weight gradient";
    case OpKind::send_gradient:
      return "send gradient";
    case OpKind::reduce:
      return "reduce";
    case OpKind::finish_reduce:
      return "finish reduce";
    case OpKind::send_tied:
      return "send tied";
    case OpKind::receive_tied:
      return "receive tied";
    case OpKind::add_tied:
      return "add tied";
    case OpKind::agree:
      return "agree";
    case OpKind::update:
      return "update";
    case OpKind::gather:
      return "gather";
    case OpKind::finish_gather:
      return "finish gather";
  }
  return "unknown operation";
}

std::string describe(const Op& op, bool chunked) {
  std::string text = describe(op.kind);
  if (op.micro_batch >= 0) text += " " + std::to_string(op.micro_batch);
  if (chunked && op.chunk >= 0) text += " chunk " + std::to_string(op.chunk);
  if (op.unit >= 0) text += " unit " + std::to_string(op.unit);
  if (op.count > 0) text += " [" + std::to_string(op.first) + "," + std::to_string(op.first + op.count) + ")";
  if (op.peer < 0) return text;
  return text + (is_send(op.kind) ? " to " : " from ") + std::to_string(op.peer);
}

std::string describe(const Schedule& schedule) {
  std::string text;
  const bool chunked = schedule.layout.chunked();
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const RankLayout& rank = schedule.layout.ranks[r];
    text += "rank " + std::to_string(r) + ": stage " + std::to_string(rank.stage) + " replica " +
            std::to_string(rank.replica);
    if (rank.tp > 1) text += " tp " + std::to_string(rank.tp_rank) + "/" + std::to_string(rank.tp);
    for (const int c : rank.chunks) {
      const ChunkLayout& chunk = schedule.layout.chunks[static_cast<std::size_t>(c)];
      if (chunked) text += " chunk " + std::to_string(c) + ":";
      text += " units " + std::to_string(chunk.first_unit) + "-" + std::to_string(chunk.last_unit());
    }
    text += " samples " + std::to_string(rank.first_sample) + "-" +
            std::to_string(rank.first_sample + rank.samples - 1) + "\n";
    for (const Op& op : schedule.ranks[r]) text += "  " + describe(op, chunked) + "\n";
  }
  return text;
}

}  // namespace espalier::torchrt
