// A timer for a limit whose time does not run while this process stands still (planner/wire/awake_limit.hpp). Runs on
// the loop.
#pragma once

#include <functional>
#include <optional>

#include "planner/wire/awake_limit.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class AwakeTimer {
 public:
  using Milliseconds = wire::AwakeLimit::Milliseconds;

  // `look`, `stalled`: as of AwakeLimit.
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
  std::optional<wire::AwakeLimit> limit_;
  wire::Watch watch_;
};

}  // namespace espalier::launcher
