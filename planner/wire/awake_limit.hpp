// What is left of a limit whose time does not run while this process stands still, e.g. while Slurm has the job
// suspended: what is waited for stands still as well. Pure: the clock is passed in.
#pragma once

#include <chrono>

namespace espalier::wire {

class AwakeLimit {
 public:
  using Milliseconds = std::chrono::milliseconds;
  using Time = std::chrono::steady_clock::time_point;

  // The wait is cut into looks of at most `look`. A look that ends later than planned by more than `stalled` shows that
  // the process stood still; no more than the planned time of it counts.
  explicit AwakeLimit(Milliseconds time, Milliseconds look = Milliseconds(1000),
                      Milliseconds stalled = Milliseconds(5000))
      : time_(time), look_(look), stalled_(stalled), left_(time) {}

  Milliseconds time() const { return time_; }
  bool over() const { return left_ <= Time::duration(0); }
  // How long the next look waits.
  Milliseconds begin_look(Time now);
  // It has waited, or what was waited for has come.
  void end_look(Time now);

 private:
  const Milliseconds time_, look_, stalled_;
  Time::duration left_;
  Milliseconds waits_{};
  Time since_;
};

}  // namespace espalier::wire
