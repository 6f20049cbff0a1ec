// Children: they say how they ended, and none outlives its owner.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/process/child.hpp"
#include "planner/core/error.hpp"

using namespace espalier;
using launcher::Child;

TEST_CASE("a program that is not there is refused, and nothing of it is left") {
  wire::Loop loop;
  CHECK_THROWS_WITH_AS(Child(loop, {"/nonexistent/mpirun"}, {}, {}, nullptr),
                       "/nonexistent/mpirun: cannot be started: No such file or directory", Error);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

TEST_CASE("a child tells how it ended") {
  wire::Loop loop;
  int code = -1;
  const auto limit = loop.after(std::chrono::seconds(10), [&] { loop.stop(); });
  const Child child(loop, {"/bin/sh", "-c", "exit 7"}, {}, {}, [&](int status) {
    code = launcher::exit_code(status);
    loop.stop();
  });
  loop.run();
  CHECK(code == 7);
  CHECK_FALSE(child.running());
}

TEST_CASE("a child that ignores SIGTERM ends with its owner, and is reaped") {
  wire::Loop loop;
  pid_t pid = -1;
  {
    const Child child(loop, {"/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"}, {"PATH=/bin:/usr/bin"}, {},
                      nullptr);
    pid = child.pid();
    REQUIRE(::kill(pid, 0) == 0);
  }
  CHECK(::kill(pid, 0) == -1);
  CHECK(errno == ESRCH);
}

// ---- without waiting for the start

namespace {

// How a child ended whose start was not waited for.
struct Told {
  wire::Loop loop;
  std::string refused;
  int code = -1;
  Child::Traits traits() {
    Child::Traits own;
    own.refused = [this](const std::string& why) {
      refused = why;
      loop.stop();
    };
    return own;
  }
  std::function<void(int)> on_exit() {
    return [this](int status) {
      code = launcher::exit_code(status);
      loop.stop();
    };
  }
  void run() {
    const auto limit = loop.after(std::chrono::seconds(15), [this] { loop.stop(); });
    loop.run();
  }
};

}  // namespace

TEST_CASE("a program that is not there is refused on the loop, once, and has not ended") {
  Told told;
  {
    const Child child(told.loop, {"/nonexistent/mpirun"}, {}, told.traits(), told.on_exit());
    CHECK(child.starts());
    told.run();
    CHECK(told.refused == "/nonexistent/mpirun: cannot be started: No such file or directory");
    const auto rest = told.loop.after(std::chrono::milliseconds(100), [&] { told.loop.stop(); });
    told.refused.clear();
    told.loop.run();
  }
  CHECK(told.refused.empty());
  CHECK(told.code == -1);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
}

TEST_CASE("a program whose start was not waited for tells how it ended") {
  Told told;
  const Child child(told.loop, {"/bin/sh", "-c", "exit 7"}, {}, told.traits(), told.on_exit());
  told.run();
  CHECK(told.code == 7);
  CHECK(told.refused.empty());
  CHECK_FALSE(child.starts());
}

TEST_CASE("a child that is killed before its program starts has ended") {
  Told told;
  const Child child(told.loop, {"/bin/sleep", "60"}, {}, told.traits(), told.on_exit());
  child.signal(SIGKILL);
  told.run();
  CHECK(told.code == 128 + SIGKILL);
  CHECK(told.refused.empty());
}

TEST_CASE("a child that is refused may be destroyed in the callback") {
  wire::Loop loop;
  std::unique_ptr<Child> child;
  Child::Traits traits;
  traits.refused = [&](const std::string&) {
    child.reset();
    loop.stop();
  };
  child = std::make_unique<Child>(loop, std::vector<std::string>{"/nonexistent/mpirun"}, std::vector<std::string>{},
                                  traits, nullptr);
  const auto limit = loop.after(std::chrono::seconds(15), [&] { loop.stop(); });
  loop.run();
  CHECK(child == nullptr);
}
