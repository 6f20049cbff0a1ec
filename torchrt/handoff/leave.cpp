#include "torchrt/handoff/leave.hpp"

#include "torchrt/handoff/move.hpp"

namespace espalier::torchrt {

Departure::Departure(RankState& state, World& world, Device& device, StateServer& server, const Plan& next, int layers)
    : server_(server) {
  const TransferPlan plan = plan_transfer(state.plan(), next, layers, device.kind() == DeviceKind::cuda);
  for (const Collapse& collapse : plan.collapses) {
    if (collapse.from == world.rank()) {
      send_state(world, device, state.allocation(collapse.unit), collapse.to, collapse.unit);
    } else if (collapse.to == world.rank()) {
      std::unique_ptr<Allocation>& target = collapsed_[collapse.unit];
      target =
          device.allocate(state.spec(collapse.unit).state_bytes(), "espalier-unit" + std::to_string(collapse.unit));
      receive_state(world, device, *target, collapse.from, collapse.unit);
      server_.offer(collapse.unit, target->fd(), target->bytes());
    }
  }
}

Departure::~Departure() {
  for (const auto& [unit, allocation] : collapsed_) server_.withdraw(unit);
}

}  // namespace espalier::torchrt
