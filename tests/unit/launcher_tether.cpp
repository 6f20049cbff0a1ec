#include <doctest/doctest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "launcher/node/tether.hpp"
#include "launcher/process/child.hpp"

using namespace espalier::launcher;
using Clock = std::chrono::steady_clock;

namespace {

using Command = std::vector<std::string>;

// A parent, below it a tether, below it a shell that runs `script`. What the shell prints is read from here; the end of
// the stream is the end of all that had it open. The parent ends with the tether's wait status: exit code or 128 +
// signal.
struct Family {
  pid_t parent = -1;
  int output = -1;

  explicit Family(const std::string& script, const std::function<int(const Command&)>& run = tether) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    parent = ::fork();
    REQUIRE(parent >= 0);
    if (parent == 0) {
      ::close(ends[0]);
      const pid_t below = ::fork();
      if (below == 0) {
        ::dup2(ends[1], 1);
        ::close(ends[1]);
        ::setpgid(0, 0);  // as a launcher's child
        ::_exit(run({"--", "sh", "-c", script}));
      }
      ::close(ends[1]);
      int status = 0;
      ::waitpid(below, &status, 0);
      ::_exit(exit_code(status));
    }
    ::close(ends[1]);
    output = ends[0];
  }
  ~Family() { ::close(output); }

  // What comes until the end of the stream or, with `enough`, until that was said; "timeout" after 30 s.
  std::string hear(const std::string& enough = "") const {
    std::string heard;
    char block[256];
    pollfd wait{output, POLLIN, 0};
    while (::poll(&wait, 1, 30'000) > 0) {
      const ssize_t count = ::read(output, block, sizeof block);
      if (count <= 0) return heard;
      heard.append(block, static_cast<std::size_t>(count));
      if (!enough.empty() && heard.find(enough) != std::string::npos) return heard;
    }
    return "timeout";
  }
  void kill() const {
    ::kill(parent, SIGKILL);
    ::waitpid(parent, nullptr, 0);
  }
  int code() const {
    int status = 0;
    ::waitpid(parent, &status, 0);
    return exit_code(status);
  }
};

}  // namespace

TEST_CASE("a tethered command whose parent is killed may still end in its own way") {
  const Family family("trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.02; done");
  family.hear("ready");
  family.kill();
  CHECK(family.hear() == "told\n");
}

TEST_CASE("a tethered command that does not end when its parent is killed is killed after two seconds") {
  const Family family("trap '' TERM; echo ready; while :; do sleep 0.02; done");
  family.hear("ready");
  const auto start = Clock::now();
  family.kill();
  CHECK(family.hear().empty());
  CHECK(Clock::now() - start >= std::chrono::seconds(2));
}

TEST_CASE("a tether ends with the exit code of its command") {
  const Family family("exit 7");
  CHECK(family.hear().empty());
  CHECK(family.code() == 7);
}

TEST_CASE("a tether passes signals on to its command, once") {
  const Family family("trap 'echo told' USR1; echo $PPID; while :; do sleep 0.02; done");
  const pid_t tether = std::stoi(family.hear("\n"));
  ::kill(tether, SIGUSR1);
  CHECK(family.hear("told") == "told\n");
  ::kill(tether, SIGKILL);
  CHECK(family.hear().empty());
  ::waitpid(family.parent, nullptr, 0);
}
