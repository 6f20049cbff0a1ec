#include "planner/wire/awake_limit.hpp"

#include <algorithm>

namespace espalier::wire {

AwakeLimit::Milliseconds AwakeLimit::begin_look(Time now) {
  since_ = now;
  return waits_ = std::clamp(std::chrono::ceil<Milliseconds>(left_), Milliseconds(0), look_);
}

void AwakeLimit::end_look(Time now) {
  const Time::duration passed = now - since_;
  left_ -= passed > waits_ + stalled_ ? waits_ : passed;
}

}  // namespace espalier::wire
