// Measurements that all ranks make together, each as long as it must be to say something.
#pragma once

#include <algorithm>
#include <chrono>
#include <climits>
#include <functional>
#include <optional>

#include "torchrt/comm/world.hpp"

namespace espalier::torchrt {

using ProbeClock = std::chrono::steady_clock;
inline double seconds_since(ProbeClock::time_point start) {
  return std::chrono::duration<double>(ProbeClock::now() - start).count();
}

// Runs `round(count)` on all ranks with twice as many repetitions each time, until it has taken
// `enough` seconds on every rank that measures. `round` returns seconds; nullopt: this rank does
// not measure. Returns the last round's repetitions. Collective.
inline int repeat_until(World& world, double enough, int first, int most,
                        const std::function<std::optional<double>(int count)>& round) {
  for (int count = first;; count *= 2) {
    world.barrier();
    const auto seconds = round(count);
    const int permille = seconds ? static_cast<int>(std::min(1e6, 1000 * *seconds / enough)) : INT_MAX;
    if (world.minimum(permille) >= 1000 || 2 * count > most) return count;
  }
}

}  // namespace espalier::torchrt
