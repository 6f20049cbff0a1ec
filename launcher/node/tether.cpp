#include "launcher/node/tether.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <optional>

#include "launcher/process/child.hpp"
#include "launcher/process/execute.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kTermToKill = std::chrono::seconds(2);

// Waits for a signal of `set`. 0: `until` passed first.
int next_signal(const sigset_t& set, std::optional<Clock::time_point> until) {
  for (;;) {
    timespec rest{};
    if (until) {
      const auto left = std::max(*until - Clock::now(), Clock::duration::zero());
      rest.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count();
      rest.tv_nsec = std::chrono::duration_cast<std::chrono::nanoseconds>(left % std::chrono::seconds(1)).count();
    }
    const int number = ::sigtimedwait(&set, nullptr, until ? &rest : nullptr);
    if (number > 0) return number;
    if (errno == EAGAIN) return 0;
  }
}

}  // namespace

int tether(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = arguments;
  if (!command.empty() && command.front() == "--") command.erase(command.begin());
  if (command.empty()) throw Error("tether: expected a command");

  sigset_t heard, before;
  sigemptyset(&heard);
  for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) sigaddset(&heard, number);
  sigprocmask(SIG_BLOCK, &heard, &before);
  const pid_t parent = ::getppid(), self = ::getpid();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) return 1;  // the parent died before prctl

  const pid_t child = ::fork();
  if (child < 0) throw Error(command[0] + ": cannot fork: " + std::strerror(errno));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != self) ::_exit(1);
    ::setpgid(0, 0);  // a signal to this process's group reaches the command once, from this process
    sigprocmask(SIG_SETMASK, &before, nullptr);
    ::_exit(replace_by(command));
  }
  for (std::optional<Clock::time_point> until;;) {
    const int number = next_signal(heard, until);
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) return exit_code(status);
    if (number == SIGTERM && !until) until = Clock::now() + kTermToKill;
    if (number == 0) until.reset();
    if (number != SIGCHLD) ::kill(child, number == 0 ? SIGKILL : number);
  }
}

}  // namespace espalier::launcher
