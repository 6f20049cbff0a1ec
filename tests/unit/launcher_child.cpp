// Children: they say how they ended, and none outlives its owner.
#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/process/child.hpp"
#include "launcher/process/reaping.hpp"
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

TEST_CASE("children that are ended together are gone, and none of them tells its owner any more") {
  wire::Loop loop;
  int told = 0;
  std::vector<std::unique_ptr<Child>> children;
  std::vector<Child*> all;
  for (int i = 0; i < 8; ++i) {
    const std::vector<std::string> command{"/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"};
    children.push_back(std::make_unique<Child>(loop, command, std::vector<std::string>{"PATH=/bin:/usr/bin"},
                                               Child::Traits{}, [&](int) { ++told; }));
    all.push_back(children.back().get());
  }
  Child::end_all(all);
  for (const Child* child : all) {
    CHECK_FALSE(child->running());
    CHECK_FALSE(Child::owns(child->pid()));
    CHECK(::kill(child->pid(), 0) == -1);
  }
  children.clear();
  const auto rest = loop.after(std::chrono::milliseconds(100), [&] { loop.stop(); });
  loop.run();
  CHECK(told == 0);
}

// No process here can be made to hang in the kernel. That of a child that nobody has killed does not end either.
TEST_CASE("all children are waited for together, and those that end meanwhile are reaped") {
  std::vector<launcher::ChildProcess> processes;
  for (int i = 0; i < 9; ++i) {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      if (i > 0) ::sleep(100);
      ::_exit(0);
    }
    processes.push_back({pid, static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))});
  }
  const auto start = std::chrono::steady_clock::now();
  const auto left = launcher::reap(processes, std::chrono::seconds(1));
  const auto took = std::chrono::steady_clock::now() - start;
  CHECK(took >= std::chrono::seconds(1));
  CHECK(took < std::chrono::seconds(3));
  CHECK(left.size() == 8);
  CHECK(::waitpid(processes.front().pid, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
  for (const auto& one : left) ::kill(one.pid, SIGKILL);
  CHECK(launcher::reap(left, std::chrono::seconds(10)).empty());
  for (const auto& one : processes) ::close(one.pidfd);
}

TEST_CASE("a child gets none of the variables of the step, nor options that the user has set for srun") {
  const char* const left_out[] = {"SRUN_CPUS_PER_TASK", "SRUN_EXPORT_ENV", "SLURM_GPUS_PER_TASK", "SPANK_X", "PMIX_X"};
  for (const char* name : left_out) ::setenv(name, "1", 1);
  ::setenv("SRUNNER", "1", 1);
  const std::vector<std::string> environment = launcher::clean_environment({"GIVEN=2"});
  for (const char* name : left_out) {
    ::unsetenv(name);
    CHECK(std::count(environment.begin(), environment.end(), name + std::string("=1")) == 0);
  }
  ::unsetenv("SRUNNER");
  CHECK(std::count(environment.begin(), environment.end(), "SRUNNER=1") == 1);
  CHECK(environment.back() == "GIVEN=2");
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
