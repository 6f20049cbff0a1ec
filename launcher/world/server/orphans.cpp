#include "launcher/world/server/orphans.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>

#include "launcher/process/child.hpp"

namespace espalier::launcher {
namespace {
constexpr wire::Loop::Milliseconds kAgain{100};
}  // namespace

Orphans::Orphans(wire::Loop& loop) : loop_(loop) { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

void Orphans::reap() {
  again_.reset();
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    if (Child::owns(info.si_pid)) {  // it hides those behind it until its owner has reaped it
      again_ = loop_.after(kAgain, [this] { reap(); });
      return;
    }
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

}  // namespace espalier::launcher
