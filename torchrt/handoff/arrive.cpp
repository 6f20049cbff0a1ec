#include "torchrt/handoff/arrive.hpp"

#include "planner/core/error.hpp"
#include "torchrt/handoff/move.hpp"

namespace espalier::torchrt {

Arrival::Arrival(RankState& state, World& world, Device& device, const Plan& before, int layers,
                 std::function<std::string(int)> address_of)
    : state_(state),
      world_(world),
      device_(device),
      plan_(plan_transfer(before, state.plan(), layers, device.kind() == DeviceKind::cuda)),
      address_of_(std::move(address_of)) {
  for (const Take& take : plan_.takes)
    if (take.rank == world.rank()) takes_.push_back(take);
}

// `expected_step` < 0: any, the old generation is still training.
FetchedUnit Arrival::fetch(int unit, int old_rank, std::int64_t expected_step) const {
  FetchedUnit fetched = fetch_unit(address_of_(old_rank), unit);
  if (fetched.bytes != state_.spec(unit).state_bytes())
    throw Error("hand-off: unit " + std::to_string(unit) +
                " has another size in the old generation; the generations must train the same model");
  if (expected_step >= 0 && fetched.step != expected_step)
    throw Error("hand-off: old rank " + std::to_string(old_rank) + " stands after step " +
                std::to_string(fetched.step) + ", not " + std::to_string(expected_step));
  return fetched;
}

std::unique_ptr<Allocation> Arrival::map(int unit, int old_rank, std::int64_t expected_step) {
  FetchedUnit fetched = fetch(unit, old_rank, expected_step);
  return device_.adopt(std::move(fetched.fd), fetched.bytes);
}

void Arrival::prepare() {
  for (const Take& take : takes_) {
    if (take.kind == TakeKind::adopt && !deferred(take.unit, take.from)) {
      state_.place(take.unit, map(take.unit, take.from, -1));
      continue;
    }
    state_.allocate(take.unit);
    if (take.kind == TakeKind::copy && !deferred(take.unit, take.from))
      borrowed_[{take.unit, take.from}] = map(take.unit, take.from, -1);
  }
  for (const Donation& donation : plan_.donations)
    if (donation.donor == world_.rank() && donation.old_rank >= 0 && !deferred(donation.unit, donation.old_rank))
      borrowed_[{donation.unit, donation.old_rank}] = map(donation.unit, donation.old_rank, -1);
}

// One question per old rank: a unit of each shows where its generation stands.
void Arrival::check_sources(std::int64_t step) {
  std::map<int, int> unit_of;
  for (const Take& take : takes_)
    if (take.kind != TakeKind::receive) unit_of[take.from] = take.unit;
  for (const auto& [key, allocation] : borrowed_) unit_of[key.second] = key.first;
  for (const auto& [old_rank, unit] : unit_of) fetch(unit, old_rank, step);
}

const Allocation& Arrival::donated(const Donation& donation) {
  return donation.old_rank < 0 ? state_.allocation(donation.unit) : *borrowed_.at({donation.unit, donation.old_rank});
}

ArrivalBytes Arrival::load(std::int64_t step) {
  ArrivalBytes bytes;
  check_sources(step);
  for (const Take& take : takes_) {
    const std::size_t size = state_.spec(take.unit).state_bytes();
    if (take.kind == TakeKind::receive) continue;
    const bool late = deferred(take.unit, take.from);
    if (take.kind == TakeKind::adopt) {
      if (late) state_.place(take.unit, map(take.unit, take.from, step));
      bytes.adopted += static_cast<std::int64_t>(size);
    } else {
      if (late) borrowed_[{take.unit, take.from}] = map(take.unit, take.from, step);
      device_.copy(state_.allocation(take.unit).data(), borrowed_.at({take.unit, take.from})->data(), size);
      bytes.copied += static_cast<std::int64_t>(size);
    }
  }
  for (const Donation& donation : plan_.donations) {
    if (donation.donor == world_.rank()) {
      if (donation.old_rank >= 0 && deferred(donation.unit, donation.old_rank))
        borrowed_[{donation.unit, donation.old_rank}] = map(donation.unit, donation.old_rank, step);
      const Allocation& source = donated(donation);
      send_state(world_, device_, source, donation.to, donation.unit);
      bytes.sent += static_cast<std::int64_t>(source.bytes());
    } else if (donation.to == world_.rank()) {
      receive_state(world_, device_, state_.allocation(donation.unit), donation.donor, donation.unit);
    }
  }
  return bytes;
}

void Arrival::release() { borrowed_.clear(); }

}  // namespace espalier::torchrt
