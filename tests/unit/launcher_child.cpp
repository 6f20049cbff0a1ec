// Children: they say how they ended, and none outlives its owner.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <csignal>

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
