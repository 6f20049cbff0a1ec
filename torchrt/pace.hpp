// Imitates a device that is slower than this CPU: each operation lasts as long as it would on the
// device, by its FLOPs. So many ranks on few cores scale like many devices. All else is real.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "torchrt/config.hpp"
#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

class Pace {
 public:
  using Clock = std::chrono::steady_clock;
  struct Span {
    Clock::time_point start, end;
  };
  explicit Pace(double flops_per_second) : flops_per_second_(flops_per_second) {}

  // For work that could begin at `ready`. Returns when the device would have done it, with the
  // device's times. Sleeps, and calls `beside` about every millisecond.
  //
  // A rank that woke late or shared a core catches up: the device's work then starts at the end of
  // its last work. If the rank waited for something in between, it starts at `ready`. A rank
  // catches up at most 10 ms, so that a CPU that is too slow for the device shows.
  Span hold(Clock::time_point ready, double flops, const std::function<void()>& beside);

 private:
  double flops_per_second_;
  Clock::time_point free_;      // when the device's last work ended
  Clock::time_point returned_;  // when hold() last returned
};

// The pace of config.device; nullopt: full speed. Throws Error when `kind` is not the CPU.
std::optional<Pace> make_pace(const DeviceConfig& config, DeviceKind kind);

}  // namespace espalier::torchrt
