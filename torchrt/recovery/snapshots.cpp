#include "torchrt/recovery/snapshots.hpp"

#include <algorithm>
#include <chrono>

#include "planner/core/error.hpp"
#include "torchrt/comm/waits.hpp"
#include "torchrt/device/cpu.hpp"
#include "torchrt/recovery/host_memory.hpp"

namespace espalier::torchrt {

namespace {

std::vector<VaultPlace> all_places(World& world, const VaultPlace& mine) {
  const std::string words = std::string(1, mine.with_launcher ? 'l'
                                           : mine.own         ? 'o'
                                                              : 'e') +
                            static_cast<char>('0' + mine.copies) + mine.owner;
  std::vector<VaultPlace> places;
  for (const std::vector<char>& theirs : world.gather(std::span<const char>(words.data(), words.size())))
    places.push_back(
        {std::string(theirs.begin() + 2, theirs.end()), theirs[0] != 'e', theirs[0] == 'l', theirs[1] - '0'});
  return places;
}

StateLayout layout_of(const RankState& state, const RankLayout& rank, int unit) {
  const Config& config = state.config();
  const UnitSpec spec = unit_spec(config.model, unit, rank.tp, rank.tp_rank);
  const bool divided = config.training.zero1;
  return state_layout(spec, config.training.dtype, divided ? rank.replicas : 1, divided ? rank.replica : 0);
}

// With as many copies as this host has memory for.
VaultPlace with_room(VaultPlace place, const RankState& state, int rank) {
  std::int64_t largest = 0;
  for (const RankLayout& one : state.layout().ranks) {
    std::int64_t bytes = 0;
    for (const int unit : one.units) bytes += static_cast<std::int64_t>(layout_of(state, one, unit).bytes());
    largest = std::max(largest, bytes);
  }
  const auto gpus = state.plan().ranks();
  const std::string& node = gpus[static_cast<std::size_t>(rank)].node;
  const auto here = std::count_if(gpus.begin(), gpus.end(), [&](const GpuId& gpu) { return gpu.node == node; });
  place.copies = copies_that_fit(free_host_memory(), static_cast<int>(here), largest);
  return place;
}

}  // namespace

Snapshots::Snapshots(RankState& state, World& world, Device& device, int every, const VaultPlace& place)
    : state_(state), world_(world), device_(device), host_(make_cpu_device()), every_(every) {
  const std::vector<int> partners =
      snapshot_partners(state.plan(), all_places(world, with_room(place, state, world.rank())));
  partner_ = partners[static_cast<std::size_t>(world.rank())];
  reserve(world.rank());
  for (const auto& slot : copies_.front().slots)
    for (const auto& memory : slot) copies_.front().pinned.push_back(device_.pin(memory->data(), memory->bytes()));
  for (int rank = 0; rank < world.size(); ++rank)
    if (partners[static_cast<std::size_t>(rank)] == world.rank()) reserve(rank);
}

void Snapshots::reserve(int rank) {
  const RankLayout& self = state_.layout().ranks[static_cast<std::size_t>(rank)];
  Copy copy;
  copy.rank = rank;
  copy.units = self.units;
  for (auto& slot : copy.slots)
    for (const int unit : self.units)
      slot.push_back(host_->allocate(layout_of(state_, self, unit).bytes(), "espalier-copy"));
  copies_.push_back(std::move(copy));
}

int Snapshots::mark(std::size_t copy, std::size_t slot) const {
  return state_.layout().units + static_cast<int>(2 * copy + slot);
}

void Snapshots::deposit(Keeping& keeping) {
  marks_ = &keeping.marks();
  for (std::size_t c = 0; c < copies_.size(); ++c)
    for (std::size_t slot = 0; slot < 2; ++slot)
      for (std::size_t u = 0; u < copies_[c].units.size(); ++u)
        keeping.deposit(copies_[c].rank, copies_[c].units[u], static_cast<int>(slot) + 1, mark(c, slot),
                        *copies_[c].slots[slot][u]);
}

void Snapshots::boundary(std::int64_t step) {
  poll();
  if (newest_ >= 0 && step % every_ != 0) return;
  before_change();
  for (Backoff backoff; under_way_ >= 0; backoff.pause()) poll();
  world_.barrier();  // no rank overwrites the older copies before all ranks have the newer ones
  newest_ = step;
  slot_ = 1 - slot_;
  for (std::size_t c = 0; c < copies_.size(); ++c) marks_->set(mark(c, slot_), -1);
  device_.wait();
  // If no thread can be started, before_change() makes the copy.
  copying_ = std::async(std::launch::async | std::launch::deferred, [this] {
    const Copy& own = copies_.front();
    for (std::size_t u = 0; u < own.units.size(); ++u) {
      const Allocation& from = state_.allocation(own.units[u]);
      device_.to_host_beside(own.slots[slot_][u]->data(), from.data(), from.bytes());
    }
  });
}

void Snapshots::before_change() {
  if (copying_.valid()) copied();
}

void Snapshots::copied() {
  copying_.get();
  marks_->set(mark(0, slot_), newest_);
  complete_ = complete_ || (partner_ < 0 && copies_.size() == 1);
  if (partner_ < 0 && copies_.size() == 1) return;
  for (std::size_t c = 1; c < copies_.size(); ++c)
    for (const std::shared_ptr<Allocation>& memory : copies_[c].slots[slot_])
      exchange_.receive(copies_[c].rank, memory, memory->data(), memory->bytes());
  for (const std::shared_ptr<Allocation>& memory : copies_.front().slots[slot_])
    if (partner_ >= 0) exchange_.send(partner_, memory, memory->data(), memory->bytes());
  under_way_ = newest_;
}

void Snapshots::poll() {
  if (copying_.valid() && copying_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) copied();
  if (under_way_ < 0 || !exchange_.poll()) return;
  for (std::size_t c = 1; c < copies_.size(); ++c) marks_->set(mark(c, slot_), under_way_);
  under_way_ = -1;
  complete_ = true;
}

}  // namespace espalier::torchrt
