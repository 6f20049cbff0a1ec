// How far the old generation is with the memory that a new rank reads while that trains: its ranks' marks
// (recovery/marks.hpp). What was read is a step's state when the memory stood at that step before and after.
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
  // Throws Error when they cannot be mapped.
  void add_rank(int old_rank, UniqueFd marks, std::size_t bytes);
  // Of a rank that has been added.
  void add_unit(int old_rank, int unit) { units_[old_rank].insert(unit); }

  // Whether the ranks make of a state and a gradient what `settings` make (learning_rate.hpp).
  bool updates_with(std::int64_t settings) const;
  // The newest step that any of the memories stands at; -1: none does, or there is none.
  std::int64_t newest() const;
  bool all_at(std::int64_t step) const;
  // Until all stand at `step`; false: one is past it, or time is up.
  bool wait(std::int64_t step, std::chrono::milliseconds limit) const;
  // Until one stands at a step after `step`, there are none, or time is up.
  void wait_past(std::int64_t step, std::chrono::milliseconds limit) const;

 private:
  std::int64_t step(int old_rank, int unit) const;

  std::map<int, std::unique_ptr<Allocation>> marks_;  // by old rank
  std::map<int, std::set<int>> units_;                // likewise
};

}  // namespace espalier::torchrt
