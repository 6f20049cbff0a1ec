// A timer for a limit whose time does not run while this process stands still (planner/wire/awake_limit.hpp). Runs on
// the loop.
#pragma once

#include <functional>
#include <optional>

#include "planner/wire/awake_limit.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

// As of AwakeLimit. Only tests have others than these.
struct AwakeLooks {
  wire::AwakeLimit::Milliseconds look{1000}, stalled{5000};
};

class AwakeTimer {
 public:
  using Milliseconds = wire::AwakeLimit::Milliseconds;

  explicit AwakeTimer(wire::Loop& loop, AwakeLooks looks = {}) : loop_(loop), looks_(looks) {}

  // `over` is called once after `time`, unless start() or stop() comes before. It may call both.
  void start(Milliseconds time, std::function<void()> over);
  void stop() { watch_.reset(); }

 private:
  void wait();
  void look();

  wire::Loop& loop_;
  const AwakeLooks looks_;
  std::function<void()> over_;
  std::optional<wire::AwakeLimit> limit_;
  wire::Watch watch_;
};

}  // namespace espalier::launcher
