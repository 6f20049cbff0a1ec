// The steps of the old generation's memories, which a new rank reads while that generation trains.
// The steps come from the old ranks' marks (recovery/marks.hpp). If a memory is at one step before
// and after reading it, the read bytes are the state after that step.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

// The `unit` under which an old rank offers its marks (state_socket.hpp).
constexpr int kMarks = -1'000'000'000;

class SourceMarks {
 public:
  bool has(int old_rank) const { return marks_.count(old_rank) != 0; }
  // Throws Error when the marks cannot be mapped.
  void add_rank(int old_rank, UniqueFd marks, std::size_t bytes);
  // The rank must have been added.
  void add_unit(int old_rank, int unit) { units_[old_rank].insert(unit); }

  // True when all added ranks update with these settings (update_settings() in learning_rate.hpp).
  bool updates_with(std::int64_t settings) const;
  // The newest step of all added memories; -1: none is at a step, or none was added.
  std::int64_t newest() const;
  bool all_at(std::int64_t step) const;
  // Waits until all memories are at `step`. False: one is past it, or time is up.
  bool wait(std::int64_t step, std::chrono::milliseconds limit) const;
  // Waits until a memory is past `step` or time is up. Returns at once when no memory was added.
  void wait_past(std::int64_t step, std::chrono::milliseconds limit) const;

 private:
  std::int64_t step(int old_rank, int unit) const;

  std::map<int, std::unique_ptr<Allocation>> marks_;  // by old rank
  std::map<int, std::set<int>> units_;                // by old rank
};

}  // namespace espalier::torchrt
