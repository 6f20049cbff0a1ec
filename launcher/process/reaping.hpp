// The end of several children of this process at once.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

namespace espalier::launcher {

struct ChildProcess {
  pid_t pid = -1;
  int pidfd = -1;  // -1: there is none, and the process is not waited for
};

// Reaps the processes as they end, and waits `limit` for all together. A process that hangs in the kernel, e.g. in a
// file system that is away, does not even end on SIGKILL. Returns those that have not been reaped.
std::vector<ChildProcess> reap(std::vector<ChildProcess> processes, std::chrono::milliseconds limit);

}  // namespace espalier::launcher
