#include "planner/cli/doctor/bounded.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>

#include "planner/core/error.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::cli::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOutput = 16 << 20;

struct Pipe {
  wire::Descriptor read, write;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(std::string("pipe: ") + std::strerror(errno));
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
};

bool write_all(int to, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t count = ::write(to, text.data() + at, text.size() - at);
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) at += static_cast<std::size_t>(count);
  }
  return true;
}

// Ends this process with the code of `body`. Destructors of the parent's objects do not run.
[[noreturn]] void be_child(pid_t parent, const Pipe& out, const Pipe& errors, const std::function<int()>& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(126);
  ::setpgid(0, 0);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(null, STDIN_FILENO);
  ::dup2(out.write.get(), STDOUT_FILENO);
  ::dup2(errors.write.get(), STDERR_FILENO);
  int code = 1;
  try {
    code = body();
  } catch (const std::exception& error) {
    write_all(STDERR_FILENO, error.what());
  }
  ::_exit(code);
}

void take(pollfd& watched, std::string& into) {
  if (watched.fd < 0 || watched.revents == 0) return;
  char buffer[65536];
  const ssize_t count = ::read(watched.fd, buffer, sizeof buffer);
  if (count > 0 && into.size() < kMostOutput) into.append(buffer, static_cast<std::size_t>(count));
  else if (count == 0 || (count < 0 && errno != EINTR)) watched.fd = -1;
}

// Until the child has ended and nothing more can be read, or the time is up.
void watch(pid_t child, const Pipe& out, const Pipe& errors, Bounded& result) {
  constexpr int kTick = 20;  // ms
  const auto start = Clock::now();
  const auto until = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(result.limit));
  std::array<pollfd, 2> watched{{{out.read.get(), POLLIN, 0}, {errors.read.get(), POLLIN, 0}}};
  for (bool ended = false;;) {
    // What a child leaves to its own children may stay open: once it has ended, what is there is read and no more.
    const int ready = ::poll(watched.data(), watched.size(), ended ? 0 : kTick);
    if (ended && ready <= 0) break;
    take(watched[0], result.output);
    take(watched[1], result.errors);
    ended = ended || ::waitpid(child, &result.status, WNOHANG) == child;
    if (Clock::now() <= until) continue;
    result.in_time = false;
    ::kill(-child, SIGKILL);
    ::kill(child, SIGKILL);
    if (!ended) ::waitpid(child, &result.status, 0);
    break;
  }
  ::kill(-child, SIGKILL);  // what it started and left
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
}

Bounded run(const std::string& what, const std::function<int()>& body, double seconds) {
  Bounded result;
  result.what = what;
  result.limit = seconds;
  Pipe out, errors;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw Error(std::string("fork: ") + std::strerror(errno));
  if (child == 0) be_child(parent, out, errors, body);
  ::setpgid(child, child);  // whoever is first
  out.write.reset();
  errors.write.reset();
  watch(child, out, errors, result);
  return result;
}

std::string last_line(const std::string& text) {
  const auto end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return "";
  const auto begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

}  // namespace

bool Bounded::succeeded() const { return in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0; }

std::string Bounded::problem() const {
  char text[64];
  const std::string name = what.empty() ? "" : what + " ";
  if (!in_time) {
    std::snprintf(text, sizeof text, "no answer within %.3g s", limit);
    return name + text;
  }
  const std::string said = last_line(errors);
  if (what.empty() && !said.empty()) return said;
  if (WIFSIGNALED(status)) std::snprintf(text, sizeof text, "ended by signal %d", WTERMSIG(status));
  else std::snprintf(text, sizeof text, "ended with code %d", WEXITSTATUS(status));
  return name + text + (said.empty() ? "" : ": " + said);
}

Bounded run_bounded(const std::vector<std::string>& command, double seconds) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const auto execute = [&] {
    ::execvp(arguments[0], arguments.data());
    throw Error(std::string("cannot be executed: ") + std::strerror(errno));
    return 127;
  };
  return run(command.at(0), execute, seconds);
}

Bounded call_bounded(const std::function<std::string()>& work, double seconds) {
  return run(
      "", [&] { return write_all(STDOUT_FILENO, work()) ? 0 : 1; }, seconds);
}

}  // namespace espalier::cli::doctor
