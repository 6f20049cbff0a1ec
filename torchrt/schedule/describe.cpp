#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

std::string describe(const Op& op) {
  const std::string range =
      std::to_string(op.micro_batch) + "[" + std::to_string(op.first) + "," + std::to_string(op.first + op.count) + ")";
  switch (op.kind) {
    case OpKind::receive_activation:
      return "receive activation " + range + " from " + std::to_string(op.peer);
    case OpKind::forward:
      return "forward " + std::to_string(op.micro_batch);
    case OpKind::send_activation:
      return "send activation " + range + " to " + std::to_string(op.peer);
    case OpKind::receive_gradient:
      return "receive gradient " + range + " from " + std::to_string(op.peer);
    case OpKind::backward:
      return "backward " + std::to_string(op.micro_batch);
    case OpKind::send_gradient:
      return "send gradient " + range + " to " + std::to_string(op.peer);
    case OpKind::reduce:
      return "reduce unit " + std::to_string(op.unit);
    case OpKind::agree:
      return "agree";
    case OpKind::update:
      return "update unit " + std::to_string(op.unit);
  }
  return "unknown operation";
}

std::string describe(const Schedule& schedule) {
  std::string text;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const RankLayout& rank = schedule.layout.ranks[r];
    text += "rank " + std::to_string(r) + ": stage " + std::to_string(rank.stage) + " replica " +
            std::to_string(rank.replica) + " units " + std::to_string(rank.units.front()) + "-" +
            std::to_string(rank.units.back()) + " samples " + std::to_string(rank.first_sample) + "-" +
            std::to_string(rank.first_sample + rank.samples - 1) + "\n";
    for (const Op& op : schedule.ranks[r]) text += "  " + describe(op) + "\n";
  }
  return text;
}

}  // namespace espalier::torchrt
