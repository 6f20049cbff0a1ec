// The daemon's clock: seconds since the epoch. Every record uses it.
#pragma once

#include "planner/wire/clock.hpp"
#include "planner/wire/thread_time.hpp"

namespace espalier {

inline double clock_seconds() { return wire::unix_seconds(); }
using wire::thread_seconds;

}  // namespace espalier
