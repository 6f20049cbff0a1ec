// The daemon's clock: seconds since the epoch, as in every record.
#pragma once

#include <chrono>

namespace espalier {

inline double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace espalier
