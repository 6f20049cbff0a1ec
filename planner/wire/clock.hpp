// Time, for everything that lives on an event loop. In one place, so that a simulation can bring its own.
#pragma once

#include <chrono>

namespace espalier::wire {

std::chrono::steady_clock::time_point steady_now();
double unix_seconds();  // since the epoch

}  // namespace espalier::wire
