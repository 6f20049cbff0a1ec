// How far a thread has come that writes a checkpoint, and whether anybody still wants what it writes.
#pragma once

#include <atomic>
#include <cstdint>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

// Shared by the thread that writes and the one that watches it. Any thread may call anything.
class WriteProgress {
 public:
  // For the writer, after each piece. Throws Error once it was given up, so that it writes no more.
  void next() {
    if (given_up_) throw Error("was given up");
    ++pieces_;
  }
  // For the watcher.
  std::int64_t pieces() const { return pieces_; }
  void give_up() { given_up_ = true; }

 private:
  std::atomic<std::int64_t> pieces_{0};
  std::atomic<bool> given_up_{false};
};

}  // namespace espalier::torchrt
