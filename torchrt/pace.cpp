#include "torchrt/pace.hpp"

#include <algorithm>
#include <thread>

namespace espalier::torchrt {

Pace::Span Pace::hold(Clock::time_point ready, std::chrono::duration<double> length,
                      const std::function<void()>& beside) {
  constexpr Clock::duration kNap = std::chrono::milliseconds(1), kNoWait = kNap, kMostBehind = 10 * kNap;
  const Clock::time_point start = ready - returned_ <= kNoWait ? free_ : ready;
  Clock::time_point end = start + std::chrono::duration_cast<Clock::duration>(length);
  Clock::time_point now = Clock::now();
  for (; now < end; now = Clock::now()) {
    std::this_thread::sleep_for(std::min(end - now, kNap));
    beside();
  }
  end = std::max(end, now - kMostBehind);
  free_ = end;
  returned_ = now;
  return {start, end};
}

}  // namespace espalier::torchrt
