#include "tests/bench/daemon/espalierd_process.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "planner/core/error.hpp"
#include "tests/bench/daemon/site_table.h"

namespace espalier::bench {

EspalierdProcess::EspalierdProcess(Program program) : program_(std::move(program)) {
  ::setenv("LD_PRELOAD", program_.answers.c_str(), 1);
  ::setenv(SITE_TABLE_VARIABLE, program_.table.c_str(), 1);
}

void EspalierdProcess::start() {
  const int log = ::open(program_.log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (log < 0) throw Error(program_.log + ": cannot be written: " + std::strerror(errno));
  pid_ = ::fork();
  if (pid_ < 0) throw Error(std::string("espalierd: cannot be started: ") + std::strerror(errno));
  if (pid_ > 0) {
    ::close(log);
    return;
  }
  // The death signal is cleared when the user changes, so that it comes last.
  ::dup2(log, STDOUT_FILENO), ::dup2(log, STDERR_FILENO);
  if (::setgroups(0, nullptr) != 0 || ::setgid(program_.group) != 0 || ::setuid(program_.user) != 0) ::_exit(126);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::execl(program_.path.c_str(), "espalierd", "--foreground", "--config", "/etc/espalier/espalier.toml", nullptr);
  ::_exit(127);
}

void EspalierdProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

double EspalierdProcess::cpu_seconds() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
  std::string word;
  std::getline(file, word, ')');
  long ticks = 0, value = 0;
  for (int field = 3; field <= 15 && file >> word; ++field)
    if (field >= 14 && (value = std::atol(word.c_str())) > 0) ticks += value;
  if (ticks == 0) throw Error("espalierd: has ended; see its log");
  return static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double EspalierdProcess::peak_mib() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("VmHWM:")) return std::atof(line.c_str() + 6) / 1024;
  throw Error("espalierd: has ended; see its log");
}

}  // namespace espalier::bench
