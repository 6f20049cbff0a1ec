// A limit whose time does not run while this process stands still, e.g. while Slurm has the job suspended: what is
// waited for stands still as well. Runs on the loop.
#pragma once

#include <chrono>
#include <functional>

#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class AwakeTimer {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // It looks at the clock once every `look`. A look that is late by more than `stalled` shows that the process stood
  // still; that time does not count.
  explicit AwakeTimer(wire::Loop& loop, Milliseconds look = Milliseconds(1000),
                      Milliseconds stalled = Milliseconds(5000))
      : loop_(loop), look_(look), stalled_(stalled) {}

  // `over` is called once after `time`, unless start() or stop() comes before. It may call both.
  void start(Milliseconds time, std::function<void()> over);
  void stop() { watch_.reset(); }

 private:
  void wait();
  void look();

  wire::Loop& loop_;
  const Milliseconds look_, stalled_;
  std::function<void()> over_;
  Milliseconds left_{}, waits_{};
  std::chrono::steady_clock::time_point since_;
  wire::Watch watch_;
};

}  // namespace espalier::launcher
