// Waits between tries of something that fails again and again: each is twice as long as the one before, up to a
// longest.
#pragma once

#include <algorithm>
#include <functional>

#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class LongerWaits {
 public:
  LongerWaits(wire::Loop& loop, wire::Loop::Milliseconds first, wire::Loop::Milliseconds longest)
      : loop_(loop), first_(first), longest_(longest), next_(first) {}

  void begin_over() { next_ = first_; }                    // it has not failed
  wire::Loop::Milliseconds next() const { return next_; }  // the next wait
  // Calls `again` after the next wait, unless another one begins before.
  void wait(std::function<void()> again) {
    watch_ = loop_.after(next_, std::move(again));
    next_ = std::min(2 * next_, longest_);
  }

 private:
  wire::Loop& loop_;
  const wire::Loop::Milliseconds first_, longest_;
  wire::Loop::Milliseconds next_;
  wire::Watch watch_;
};

}  // namespace espalier::launcher
