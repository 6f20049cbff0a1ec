// Imitates a device that is slower than this CPU: each operation lasts as long as it would on the
// device (unit_times.hpp). So many ranks on few cores scale like many devices. All else is real.
#pragma once

#include <chrono>
#include <functional>

namespace espalier::torchrt {

class Pace {
 public:
  using Clock = std::chrono::steady_clock;
  struct Span {
    Clock::time_point start, end;
  };

  // For work that could begin at `ready` and takes the device `length`. Returns when the device would
  // have done it, with the device's times. Sleeps, and calls `beside` about every millisecond.
  //
  // A rank that woke late or shared a core catches up: the device's work then starts at the end of
  // its last work. If the rank waited for something in between, it starts at `ready`. A rank
  // catches up at most 10 ms, so that a CPU that is too slow for the device shows.
  Span hold(Clock::time_point ready, std::chrono::duration<double> length, const std::function<void()>& beside);

 private:
  Clock::time_point free_;      // when the device's last work ended
  Clock::time_point returned_;  // when hold() last returned
};

}  // namespace espalier::torchrt
