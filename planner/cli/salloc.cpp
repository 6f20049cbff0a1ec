#include "planner/cli/salloc.hpp"

#include <fcntl.h>
#include <poll.h>
#include <slurm/slurm.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "planner/core/error.hpp"
#include "planner/slurm/kill.h"

namespace espalier::cli {
namespace {

constexpr std::size_t kMostOutput = 64 << 20;
constexpr std::chrono::seconds kGrace(10);  // for salloc to give the nodes back

void take(pollfd& watched, std::string& into) {
  if (watched.fd < 0 || watched.revents == 0) return;
  char buffer[65536];
  const ssize_t count = ::read(watched.fd, buffer, sizeof buffer);
  if (count > 0) into.append(buffer, static_cast<std::size_t>(count));
  else if (count == 0 || errno != EINTR) watched.fd = -1;
}

}  // namespace

EndingSignals::EndingSignals() {
  sigemptyset(&set_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, number);
  ::sigprocmask(SIG_BLOCK, &set_, &before_);
  descriptor_.reset(::signalfd(-1, &set_, SFD_CLOEXEC));
}

EndingSignals::~EndingSignals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

Salloc::Pipe::Pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(std::string("pipe: ") + std::strerror(errno));
  read.reset(ends[0]);
  write.reset(ends[1]);
}

Salloc::Salloc(const std::vector<std::string>& command, const std::function<void()>& prepare,
               const EndingSignals& signals) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw Error(std::string("salloc: cannot be started: ") + std::strerror(errno));
  if (pid_ > 0) {
    out_.write.reset();
    errors_.write.reset();
    return;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  ::setsid();
  ::sigprocmask(SIG_SETMASK, &signals.before(), nullptr);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(out_.write.get(), STDOUT_FILENO);
  ::dup2(errors_.write.get(), STDERR_FILENO);
  prepare();
  ::execvp(arguments[0], arguments.data());
  std::fprintf(stderr, "salloc: cannot be executed: %s\n", std::strerror(errno));
  ::_exit(127);
}

Salloc::~Salloc() {
  if (ended_) return;
  ::kill(pid_, SIGTERM);
  const auto until = Clock::now() + kGrace;
  while (!reap() && Clock::now() < until) ::usleep(20'000);
  if (!ended_) ::kill(-pid_, SIGKILL);
  const std::uint32_t granted = job_id(), id = granted != 0 ? granted : id_after("Pending job allocation ");
  if (id != 0) {
    slurm_init(nullptr);
    espalier_slurm_kill_job(id, SIGKILL, 0);
  }
  if (!ended_) ::waitpid(pid_, &status_, 0);
}

void Salloc::watch(Clock::time_point until, const EndingSignals& signals, const std::function<void()>& tick) {
  constexpr long kTick = 1000;  // ms
  std::array<pollfd, 3> watched{
      {{signals.descriptor(), POLLIN, 0}, {out_.read.get(), POLLIN, 0}, {errors_.read.get(), POLLIN, 0}}};
  auto next = Clock::now();
  const auto in_ms = [](Clock::duration left) {
    return static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(left).count());
  };
  while (watched[1].fd >= 0 || watched[2].fd >= 0) {
    const long left = in_ms(until - Clock::now());
    if (left <= 0) throw Error("the job did not end in time and was cancelled; " + told());
    ::poll(watched.data(), watched.size(), static_cast<int>(std::min(left, kTick)));
    if (watched[0].revents != 0) throw Error("cancelled by a signal; the job was given back");
    take(watched[1], output);
    take(watched[2], errors);
    if (output.size() + errors.size() > kMostOutput) throw Error("the ranks print without end; " + told());
    if (!tick || Clock::now() < next) continue;
    tick();
    next = Clock::now() + std::chrono::milliseconds(kTick);
  }
  while (!reap()) {
    if (Clock::now() > until) throw Error("salloc does not end; " + told());
    ::usleep(10'000);
  }
}

bool Salloc::failed() const { return !WIFEXITED(status_) || WEXITSTATUS(status_) != 0; }

std::uint32_t Salloc::id_after(const char* words) const {
  const auto at = errors.find(words);
  if (at == std::string::npos) return 0;
  return static_cast<std::uint32_t>(std::strtoul(errors.c_str() + at + std::strlen(words), nullptr, 10));
}

std::uint32_t Salloc::job_id() const { return id_after("Granted job allocation "); }

std::string Salloc::told() const {
  constexpr std::size_t kShown = 2000;
  const std::string text = errors.size() > kShown ? "... " + errors.substr(errors.size() - kShown) : errors;
  return text.empty() ? "salloc and the ranks said nothing" : "salloc and the ranks said:\n" + text;
}

bool Salloc::reap() {
  ended_ = ended_ || ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_;
}

}  // namespace espalier::cli
