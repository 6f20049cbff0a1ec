#include "launcher/tether_rank.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "launcher/agent.hpp"
#include "launcher/child.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

constexpr timespec kOrphanToKill{2, 0};

// Waits for one of `set`; false when `limit` passes first.
bool signal_comes(const sigset_t& set, const timespec* limit) {
  while (::sigtimedwait(&set, nullptr, limit) < 0)
    if (errno == EAGAIN) return false;
  return true;
}

// So that mpirun reports the signal as that of the rank.
void die_of(int number) {
  ::prctl(PR_SET_DUMPABLE, 0);  // the program has left a core, if any was wanted; the limit does not hold for a pipe
  std::signal(number, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(number);
}

}  // namespace

int tether_rank(const std::vector<std::string>& arguments, const std::function<void(int code)>& tell) {
  std::vector<std::string> command = arguments;
  if (!command.empty() && command.front() == "--") command.erase(command.begin());
  if (command.empty()) throw Error("rank: expected a command");

  std::signal(SIGCHLD, SIG_DFL);  // ignored, it would not tell how the child has ended
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);  // for good: one that is pending at the end must not be taken for the rank's
  const pid_t parent = ::getppid(), self = ::getpid();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // wakes us

  const pid_t child = ::fork();
  if (child < 0) {
    const int problem = errno;
    tell(2);  // which this process then ends with
    throw Error(command[0] + ": cannot fork: " + std::strerror(problem));
  }
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != self) ::_exit(1);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    ::_exit(replace_by(command));
  }
  for (;;) {
    const bool orphan = ::getppid() != parent;
    if (!signal_comes(all, orphan ? &kOrphanToKill : nullptr)) ::kill(child, SIGKILL);
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) != child) continue;
    const int code = exit_code(status);
    if (code != 0 && ::getppid() == parent) tell(code);
    if (WIFSIGNALED(status)) die_of(WTERMSIG(status));
    return code;
  }
}

}  // namespace espalier::launcher
