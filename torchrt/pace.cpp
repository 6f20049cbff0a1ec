#include "torchrt/pace.hpp"

#include <algorithm>
#include <thread>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

Pace::Span Pace::hold(Clock::time_point ready, double flops, const std::function<void()>& beside) {
  constexpr Clock::duration kNap = std::chrono::milliseconds(1), kNoWait = kNap, kMostBehind = 10 * kNap;
  const auto length = std::chrono::duration<double>(flops / flops_per_second_);
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

std::optional<Pace> make_pace(const DeviceConfig& config, DeviceKind kind) {
  if (config.gflops == 0) return std::nullopt;
  if (kind != DeviceKind::cpu)
    throw Error(
        "device.gflops: slows a CPU down and is not for GPUs; remove it, or train with espalier-train instead of "
        "espalier-train-cuda");
  return Pace(1e9 * config.gflops);
}

}  // namespace espalier::torchrt
