#include "launcher/process/awake_timer.hpp"

#include <utility>

#include "planner/wire/clock.hpp"

namespace espalier::launcher {

void AwakeTimer::start(Milliseconds time, std::function<void()> over) {
  limit_.emplace(time, looks_.look, looks_.stalled);
  over_ = std::move(over);
  wait();
}

void AwakeTimer::wait() {
  watch_ = loop_.after(limit_->begin_look(wire::steady_now()), [this] { look(); });
}

void AwakeTimer::look() {
  limit_->end_look(wire::steady_now());
  if (!limit_->over()) return wait();
  watch_.reset();
  std::exchange(over_, nullptr)();
}

}  // namespace espalier::launcher
