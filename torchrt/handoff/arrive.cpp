#include "torchrt/handoff/arrive.hpp"

#include "planner/core/error.hpp"
#include "torchrt/handoff/move.hpp"

namespace espalier::torchrt {

namespace {

TransferPlan planned(const RankState& state, const Plan& before, const Device& device) {
  if (state.divided())
    throw Error(
        "hand-off: training.zero1 divides the optimizer's state among replicas, which a running job cannot cut anew; "
        "set training.zero1 = false");
  return plan_transfer(before, state.plan(), state.layout().units - 2, device.kind() == DeviceKind::cuda);
}

}  // namespace

Arrival::Arrival(RankState& state, World& world, Device& device, const Plan& before,
                 std::function<std::string(int)> address_of)
    : state_(state),
      world_(world),
      device_(device),
      plan_(planned(state, before, device)),
      address_of_(std::move(address_of)) {
  for (const Take& take : plan_.takes)
    if (take.rank == world.rank()) takes_.push_back(take);
}

// `expected_step` < 0: any, the old generation is still training.
FetchedPiece Arrival::fetch(const Piece& piece, int old_rank, std::int64_t expected_step) const {
  FetchedPiece fetched = fetch_piece(address_of_(old_rank), piece);
  if (fetched.bytes != state_.bytes(piece))
    throw Error(
        "hand-off: unit " + std::to_string(piece.unit) +
        " has another size in the old generation; the generations must train the same model in the same precision");
  if (expected_step >= 0 && fetched.step != expected_step)
    throw Error("hand-off: old rank " + std::to_string(old_rank) + " stands after step " +
                std::to_string(fetched.step) + ", not " + std::to_string(expected_step));
  return fetched;
}

std::unique_ptr<Allocation> Arrival::map(const Piece& piece, int old_rank, std::int64_t expected_step) {
  FetchedPiece fetched = fetch(piece, old_rank, expected_step);
  return device_.adopt(std::move(fetched.fd), fetched.bytes);
}

void Arrival::prepare() {
  for (const Take& take : takes_) {
    if (take.kind == TakeKind::adopt && !deferred(take.piece, take.from)) {
      state_.place(take.piece.unit, map(take.piece, take.from, -1));
      continue;
    }
    state_.allocate(take.piece.unit);
    if (take.kind == TakeKind::copy && !deferred(take.piece, take.from))
      borrowed_[{take.piece, take.from}] = map(take.piece, take.from, -1);
  }
  for (const Donation& donation : plan_.donations)
    if (donation.donor == world_.rank() && donation.old_rank >= 0 && !deferred(donation.piece, donation.old_rank))
      borrowed_[{donation.piece, donation.old_rank}] = map(donation.piece, donation.old_rank, -1);
}

// One question per old rank: a piece of each shows where its generation stands.
void Arrival::check_sources(std::int64_t step) {
  std::map<int, Piece> piece_of;
  for (const Take& take : takes_)
    if (take.kind != TakeKind::receive) piece_of[take.from] = take.piece;
  for (const auto& [key, allocation] : borrowed_) piece_of[key.second] = key.first;
  for (const auto& [old_rank, piece] : piece_of) fetch(piece, old_rank, step);
}

const Allocation& Arrival::donated(const Donation& donation) {
  return donation.old_rank < 0 ? state_.allocation(donation.piece.unit)
                               : *borrowed_.at({donation.piece, donation.old_rank});
}

ArrivalBytes Arrival::load(std::int64_t step) {
  ArrivalBytes bytes;
  check_sources(step);
  for (const Take& take : takes_) {
    const std::size_t size = state_.bytes(take.piece);
    if (take.kind == TakeKind::receive) continue;
    const bool late = deferred(take.piece, take.from);
    if (take.kind == TakeKind::adopt) {
      if (late) state_.place(take.piece.unit, map(take.piece, take.from, step));
      bytes.adopted += static_cast<std::int64_t>(size);
    } else {
      if (late) borrowed_[{take.piece, take.from}] = map(take.piece, take.from, step);
      device_.copy(state_.allocation(take.piece.unit).data(), borrowed_.at({take.piece, take.from})->data(), size);
      bytes.copied += static_cast<std::int64_t>(size);
    }
  }
  for (const Donation& donation : plan_.donations) {
    if (donation.donor == world_.rank()) {
      if (donation.old_rank >= 0 && deferred(donation.piece, donation.old_rank))
        borrowed_[{donation.piece, donation.old_rank}] = map(donation.piece, donation.old_rank, step);
      const Allocation& source = donated(donation);
      send_state(world_, device_, source, donation.to, donation.piece);
      bytes.sent += static_cast<std::int64_t>(source.bytes());
    } else if (donation.to == world_.rank()) {
      receive_state(world_, device_, state_.allocation(donation.piece.unit), donation.donor, donation.piece);
    }
  }
  return bytes;
}

void Arrival::release() { borrowed_.clear(); }

}  // namespace espalier::torchrt
