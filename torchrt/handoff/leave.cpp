#include "torchrt/handoff/leave.hpp"

#include "torchrt/handoff/move.hpp"

namespace espalier::torchrt {

Departure::Departure(RankState& state, World& world, Device& device, StateServer& server, const Plan& next)
    : server_(server) {
  const TransferPlan plan =
      plan_transfer(state.plan(), next, state.layout().units - 2, device.kind() == DeviceKind::cuda);
  for (const Collapse& collapse : plan.collapses) {
    const Piece& piece = collapse.piece;
    if (collapse.from == world.rank()) {
      send_state(world, device, state.allocation(piece.unit), collapse.to, piece);
    } else if (collapse.to == world.rank()) {
      std::unique_ptr<Allocation>& target = collapsed_[piece];
      target = device.allocate(state.bytes(piece), "espalier-unit" + std::to_string(piece.unit));
      receive_state(world, device, *target, collapse.from, piece);
      server_.offer(piece, target->fd(), target->bytes());
    }
  }
}

Departure::~Departure() {
  for (const auto& [piece, allocation] : collapsed_) server_.withdraw(piece);
}

}  // namespace espalier::torchrt
