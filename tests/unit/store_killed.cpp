#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "planner/daemon/store.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {
// Writes until it is killed. Sends each id over the pipe after its write has returned.
[[noreturn]] void write_for_ever(const std::string& file, int pipe) {
  Store store(file);
  for (;;) {
    DecisionRecord record;
    record.decision.job = 10;
    record.decision.plan = *job(10, "n1", {0, 1}).plan;
    const std::int64_t id = store.add(record);
    store.add(wire::Transition{10, 1, "running", "e", "acquiring", 0, id});
    if (::write(pipe, &id, sizeof id) != sizeof id) ::_exit(1);
  }
}
}  // namespace

TEST_CASE("a store killed in the middle of writing holds every write that returned") {
  for (int round = 0; round < 10; ++round) {
    const Folder folder;
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::close(ends[0]);
      try {
        write_for_ever(folder.file("a.db"), ends[1]);
      } catch (...) {
        ::_exit(2);
      }
    }
    ::close(ends[1]);
    std::int64_t last = 0, id = 0;
    for (int i = 0; i < 20 + round && ::read(ends[0], &id, sizeof id) == sizeof id; ++i) last = id;
    ::usleep(static_cast<useconds_t>(137 * round));
    ::kill(child, SIGKILL);
    while (::read(ends[0], &id, sizeof id) == sizeof id) last = id;
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    CHECK(last >= 20);
    Store store(folder.file("a.db"));
    for (std::int64_t i = 1; i <= last; ++i) CHECK(store.decision(i));
    const auto closed = store.close_open("aborted: planner restarted");
    CHECK(static_cast<std::int64_t>(closed.size()) >= last);
    CHECK(store.add(DecisionRecord{}) > last);
  }
}
