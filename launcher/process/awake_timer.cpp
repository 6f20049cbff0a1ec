#include "launcher/process/awake_timer.hpp"

#include <algorithm>
#include <utility>

#include "planner/wire/clock.hpp"

namespace espalier::launcher {

void AwakeTimer::start(Milliseconds time, std::function<void()> over) {
  left_ = time;
  over_ = std::move(over);
  wait();
}

void AwakeTimer::wait() {
  waits_ = std::min(left_, look_);
  since_ = wire::steady_now();
  watch_ = loop_.after(waits_, [this] { look(); });
}

void AwakeTimer::look() {
  const auto passed = std::chrono::duration_cast<Milliseconds>(wire::steady_now() - since_);
  left_ -= passed > waits_ + stalled_ ? waits_ : std::max(passed, waits_);
  if (left_ > Milliseconds(0)) return wait();
  watch_.reset();
  std::exchange(over_, nullptr)();
}

}  // namespace espalier::launcher
