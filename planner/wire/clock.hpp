// Time for all code on an event loop. A simulation puts its own clock in place of these functions.
#pragma once

#include <chrono>

namespace espalier::wire {

std::chrono::steady_clock::time_point steady_now();
double unix_seconds();  // since the epoch

}  // namespace espalier::wire
