#include "planner/wire/clock.hpp"

namespace espalier::wire {

std::chrono::steady_clock::time_point steady_now() { return std::chrono::steady_clock::now(); }

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace espalier::wire
