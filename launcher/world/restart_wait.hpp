// How long a rank server that has ended, or could not be started, is not started again. Slurm may refuse steps for a
// while, and thousands of them at once would be a burden to it. Where a node is gone for good, so would tries without
// end be.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>

namespace espalier::launcher {

// `failures`: in a row, before this one. 300 ms after the first, twice as long after each of the next, up to 5 s; after
// a minute of that twice as long again, up to two minutes. `longer`: a random number from 0 to 1, by which the wait is
// longer, up to twice as long. What has ended at once, as after a fault of a switch, does not come back at once.
inline std::chrono::milliseconds restart_wait(int failures, double longer = 0) {
  constexpr int kDoubles = 4, kLong = 15;
  constexpr std::chrono::milliseconds kFirst{300}, kOften{5000}, kSeldom{120'000};
  const auto wait = failures <= kDoubles ? kFirst * (1 << failures)
                                         : std::min(kOften * (1 << std::clamp(failures - kLong, 0, 5)), kSeldom);
  return wait + std::chrono::milliseconds(std::lround(longer * static_cast<double>(wait.count())));
}

}  // namespace espalier::launcher
