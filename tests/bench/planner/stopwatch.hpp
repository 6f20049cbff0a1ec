// Measures the time of a call.
#pragma once

#include <chrono>
#include <ctime>

namespace espalier::bench {

// Milliseconds since construction, by the wall clock and by this process's CPU time. Other
// processes do not lengthen the CPU time.
class Stopwatch {
 public:
  double wall_ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - wall_).count();
  }
  double cpu_ms() const { return cpu_now() - cpu_; }

 private:
  static double cpu_now() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1000 + static_cast<double>(time.tv_nsec) / 1e6;
  }

  std::chrono::steady_clock::time_point wall_ = std::chrono::steady_clock::now();
  double cpu_ = cpu_now();
};

}  // namespace espalier::bench
