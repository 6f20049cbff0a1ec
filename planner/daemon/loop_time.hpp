// The event loop's time that one user's messages take: to decode them, to act on them, and to admit launchers. A user
// who has taken too much is not refused, because after a restart of espalierd all of a user's launchers come back at
// once. Nothing is read from that user for a while instead. Pure.
#pragma once

#include <algorithm>

#include "planner/daemon/allowance.hpp"

namespace espalier {

class LoopTime {
 public:
  // `weight`: of the user's jobs and GPUs (Planner::weight_of).
  void charge(uid_t user, std::size_t weight, double now, double seconds) {
    in_all_.charge(user, weight, now, seconds);
    at_once_.charge(user, weight, now, seconds);
  }
  // Seconds until something may be read from the user; 0: now.
  double wait(uid_t user, std::size_t weight, double now) {
    return std::max(in_all_.wait_left(user, weight, now), at_once_.wait_left(user, weight, now));
  }

 private:
  // A launcher's report takes some 0.1 ms, and a registration some 2 ms with its rows in the store.
  Spending in_all_{{1, 0.1}, {0.02, 0.004}};
  // However many jobs a user has, other users get their turn after a moment, and half of the loop's time. Only who has
  // most GPUs of a large site gets more.
  Spending at_once_{{0.05, 0.5}, {0, 0.0001}, {0.05, 0.9}};
};

}  // namespace espalier
