// What work has cost the thread that did it.
#pragma once

#include <time.h>

namespace espalier::wire {

// Seconds of a processor that this thread has used.
inline double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace espalier::wire
