#include "launcher/node/server_step.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "launcher/process/child.hpp"
#include "launcher/process/execute.hpp"

namespace espalier::launcher {
namespace {
// Slurm refuses steps for a while when a job has just begun to end, and its controller may be restarting. The time
// between two attempts doubles from the first of these to the second.
constexpr auto kBetween = std::chrono::milliseconds(500), kLongestBetween = std::chrono::milliseconds(5000);
constexpr auto kLived = std::chrono::seconds(10);
}  // namespace

ServerStep::~ServerStep() {
  if (pid_ > 0) ::kill(pid_, SIGTERM);
}

std::optional<int> ServerStep::attend(Time now) {
  int status = 0;
  if (pid_ > 0) {
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = -1;
    failures_ = now - begun_ > kLived ? 0 : failures_ + 1;
    next_ = now + std::min(kBetween * (1 << std::min(failures_, 5)), kLongestBetween);
    return exit_code(status);
  }
  if (now < next_) return std::nullopt;
  begun_ = now;
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) {
    next_ = now + kLongestBetween;
    return 127;
  }
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // to the tether, which ends srun in good order
    if (::getppid() != parent) ::_exit(1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    ::_exit(replace_by(command_));
  }
  return std::nullopt;
}

}  // namespace espalier::launcher
