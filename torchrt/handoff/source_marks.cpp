#include "torchrt/handoff/source_marks.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "planner/wire/vault_message.hpp"
#include "torchrt/device/cpu.hpp"

namespace espalier::torchrt {

namespace {

constexpr std::chrono::milliseconds kLook{1};

}  // namespace

void SourceMarks::add_rank(int old_rank, UniqueFd marks, std::size_t bytes) {
  marks_[old_rank] = make_cpu_device()->adopt(std::move(marks), bytes);
}

std::int64_t SourceMarks::step(int old_rank, int unit) const {
  const Allocation& marks = *marks_.at(old_rank);
  const std::size_t place = wire::marks_bytes(unit);
  if (place + sizeof(std::int64_t) > marks.bytes()) return -1;
  auto* const mark = reinterpret_cast<std::int64_t*>(static_cast<char*>(marks.data()) + place);
  // Earlier reads of the memory stay before the mark's.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return std::atomic_ref(*mark).load(std::memory_order_seq_cst);
}

bool SourceMarks::updates_with(std::int64_t settings) const {
  for (const auto& [rank, marks] : marks_) {
    wire::VaultMarks head;
    std::memcpy(&head, marks->data(), sizeof head);
    if (head.settings != settings) return false;
  }
  return true;
}

std::int64_t SourceMarks::newest() const {
  std::int64_t newest = -1;
  for (const auto& [rank, units] : units_)
    for (const int unit : units) newest = std::max(newest, step(rank, unit));
  return newest;
}

bool SourceMarks::all_at(std::int64_t wanted) const {
  for (const auto& [rank, units] : units_)
    for (const int unit : units)
      if (step(rank, unit) != wanted) return false;
  return true;
}

bool SourceMarks::wait(std::int64_t step, std::chrono::milliseconds limit) const {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!all_at(step)) {
    if (newest() > step || std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

void SourceMarks::wait_past(std::int64_t step, std::chrono::milliseconds limit) const {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!units_.empty() && newest() <= step && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(kLook);
}

}  // namespace espalier::torchrt
