// A slower device than the CPU that computes: each operation lasts as long as it would there, by its FLOPs. So many
// ranks on few cores scale as so many devices, and everything but the arithmetic's duration is real.
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

  // Of work that could begin at `ready`: returns when the device has done it, with the device's times. Sleeps, and
  // calls `beside` about every millisecond. Who was woken late, or had to share a core, catches up: the device began
  // when the work before was done, unless the rank had to wait for something between. At most 10 ms, so that a CPU that
  // is too slow for the device shows.
  Span hold(Clock::time_point ready, double flops, const std::function<void()>& beside);

 private:
  double flops_per_second_;
  Clock::time_point free_;      // the device's work before ended
  Clock::time_point returned_;  // and hold() returned
};

// As config.device says; nullopt: operations take what they take. Throws Error where `kind` is not the CPU.
std::optional<Pace> make_pace(const DeviceConfig& config, DeviceKind kind);

}  // namespace espalier::torchrt
