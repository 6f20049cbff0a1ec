#include "planner/daemon/health_command.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

extern char** environ;

namespace espalier {
namespace {

using Milliseconds = wire::Loop::Milliseconds;

constexpr int kLookMs = 20;
constexpr std::size_t kMostOutput = 256u << 10;
// timeout(1) sends SIGKILL after so long where SIGTERM did not help. Its own end is waited for a little longer.
constexpr int kKillSeconds = 2, kSpareSeconds = 5;

}  // namespace

HealthCommand::HealthCommand(wire::Loop& loop, const std::string& program, const std::string& nodes, int seconds,
                             Done done)
    : done_(std::move(done)), program_(program), seconds_(seconds) {
  if (!start(program, nodes, seconds)) {
    watch_ = loop.after(Milliseconds(0), [this] { finish({problem_, ""}); });
    return;
  }
  looks_left_ = (seconds + kKillSeconds + kSpareSeconds) * 1000 / kLookMs;
  watch_ = loop.every(Milliseconds(kLookMs), [this] { look(); });
}

HealthCommand::~HealthCommand() {
  if (child_ > 0) end_group();
  if (pipe_ >= 0) ::close(pipe_);
}

bool HealthCommand::start(const std::string& program, const std::string& nodes, int seconds) {
  const auto failed = [&](int code) {
    problem_ = program_ + " cannot be started: " + std::strerror(code);
    return false;
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failed(errno);
  pipe_ = ends[0];
  ::fcntl(pipe_, F_SETFL, O_NONBLOCK);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none, usual;
  ::sigemptyset(&none);
  ::sigfillset(&usual);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const std::string kill_after = std::to_string(kKillSeconds), limit = std::to_string(seconds);
  const char* const words[] = {"timeout",     "-k",   kill_after.c_str(), limit.c_str(), program.c_str(),
                               nodes.c_str(), nullptr};
  const int code = ::posix_spawnp(&child_, "timeout", &files, &attributes, const_cast<char* const*>(words), environ);
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  ::close(ends[1]);
  if (code == 0) return true;
  child_ = -1;
  return failed(code);
}

bool HealthCommand::read_output() {
  char part[16384];
  while (output_.size() <= kMostOutput) {
    const ssize_t got = ::read(pipe_, part, sizeof part);
    if (got <= 0) return true;
    output_.append(part, static_cast<std::size_t>(got));
  }
  return false;
}

void HealthCommand::end_group() {
  ::kill(-child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);  // child_ is timeout(1), which waits for no disk, so that it is dead at once
  child_ = -1;
}

void HealthCommand::look() {
  bool fits = read_output();
  siginfo_t end{};
  // WNOWAIT: until the child is reaped, no other process group can have its number.
  const bool ended =
      ::waitid(P_PID, static_cast<id_t>(child_), &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid == child_;
  if (!ended && fits && --looks_left_ > 0) return;
  end_group();                   // the program may have left processes behind
  fits = fits && read_output();  // what it wrote just before its end
  const int code = ended && end.si_code == CLD_EXITED ? end.si_status : -1;
  if (!fits) return finish({program_ + " printed more than 256 KiB", ""});
  if (code == 0) return finish({"", std::move(output_)});
  if (code == 126 || code == 127) return finish({program_ + " cannot be run", ""});
  if (code == 124 || code < 0 || code == 128 + SIGKILL)
    return finish({program_ + " did not end within " + std::to_string(seconds_) + " s", ""});
  finish({program_ + " ended with exit code " + std::to_string(code), ""});
}

void HealthCommand::finish(Answer answer) {
  watch_.reset();
  const Done done = std::move(done_);
  done(answer);  // may end this object
}

}  // namespace espalier
