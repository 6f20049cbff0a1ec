#include "tests/sim/timeline.hpp"

#include <algorithm>
#include <utility>

namespace espalier::sim {

// A ticket is a serial number with the slot in its low bits, so that cancelling needs no look-up.
constexpr int kSlotBits = 20;

Timeline::Ticket Timeline::at(Seconds when, const PartyPtr& party, Callback callback) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  const Ticket ticket = ++last_ << kSlotBits | slot;
  slots_[slot] = {ticket, party, std::move(callback)};
  queue_.push({std::max(when, now_), ticket, slot});
  return ticket;
}

void Timeline::release(std::uint32_t slot) {
  const Slot old = std::exchange(slots_[slot], {});  // destroyed when the slot is in order again
  free_.push_back(slot);
}

void Timeline::cancel(Ticket ticket) {
  const auto slot = static_cast<std::uint32_t>(ticket & ((1u << kSlotBits) - 1));
  if (slot < slots_.size() && slots_[slot].ticket == ticket) release(slot);
}

bool Timeline::step() {
  while (!queue_.empty()) {
    const Entry next = queue_.top();
    queue_.pop();
    Slot& slot = slots_[next.slot];
    if (slot.ticket != next.ticket) continue;
    if (slot.party && !slot.party->alive) {
      release(next.slot);
      continue;
    }
    if (slot.party && slot.party->stands_until > next.when) {
      queue_.push({slot.party->stands_until, next.ticket, next.slot});
      continue;
    }
    now_ = next.when;
    ++steps_;
    const PartyPtr party = slot.party;
    const Callback callback = std::move(slot.callback);
    release(next.slot);
    if (party && party->run) party->run(callback);
    else callback();
    return true;
  }
  return false;
}

}  // namespace espalier::sim
