// The daemon's clock: seconds since the epoch. Every record uses it.
#pragma once

#include "planner/wire/clock.hpp"

namespace espalier {

inline double clock_seconds() { return wire::unix_seconds(); }

}  // namespace espalier
