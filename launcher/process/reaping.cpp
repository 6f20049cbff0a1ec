#include "launcher/process/reaping.hpp"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>

#include "planner/wire/clock.hpp"

namespace espalier::launcher {

std::vector<ChildProcess> reap(std::vector<ChildProcess> processes, std::chrono::milliseconds limit) {
  const auto end = wire::steady_now() + limit;
  for (;;) {
    std::erase_if(processes, [](const ChildProcess& one) { return ::waitpid(one.pid, nullptr, WNOHANG) != 0; });
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - wire::steady_now()).count();
    std::vector<pollfd> waits;
    for (const ChildProcess& one : processes)
      if (one.pidfd >= 0) waits.push_back({one.pidfd, POLLIN, 0});
    if (waits.empty() || left <= 0) return processes;
    ::poll(waits.data(), waits.size(), static_cast<int>(left));
  }
}

}  // namespace espalier::launcher
