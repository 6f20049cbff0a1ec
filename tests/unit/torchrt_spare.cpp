#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "torchrt/spare.hpp"

namespace {

// A child that becomes a spare `late` microseconds after its environment was written and the stream closed. Returns the
// child's exit code: 0 when `expects` holds there.
int spare(const std::string& environment, unsigned late, const std::function<bool()>& expects) {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(ends[0]);
    ::setenv("ESPALIER_SPARE", std::to_string(ends[1]).c_str(), 1);
    ::usleep(late);
    espalier::torchrt::wait_as_spare();
    ::_exit(expects() ? 0 : 9);
  }
  ::close(ends[1]);
  if (late == 0) {
    char byte = 0;
    REQUIRE(::read(ends[0], &byte, 1) == 1);  // it is loaded
  }
  REQUIRE(::write(ends[0], environment.data(), environment.size()) == static_cast<ssize_t>(environment.size()));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool variable_is(const char* name, const std::string& value) {
  const char* const found = std::getenv(name);
  return found != nullptr && found == value;
}

}  // namespace

TEST_CASE("a spare gets its whole environment, and nothing of the old one stays") {
  const std::string environment("ESPALIER_GENERATION=7\0OTHER=a=b\0EMPTY=\0", 39);
  CHECK(spare(environment, 0, [] {
          return variable_is("ESPALIER_GENERATION", "7") && variable_is("OTHER", "a=b") && variable_is("EMPTY", "") &&
                 std::getenv("PATH") == nullptr && std::getenv("ESPALIER_SPARE") == nullptr;
        }) == 0);
}

TEST_CASE("a spare that is needed before it has loaded goes on like the others") {
  CHECK(spare(std::string("ESPALIER_GENERATION=7\0", 22), 100'000,
              [] { return variable_is("ESPALIER_GENERATION", "7"); }) == 0);
}

TEST_CASE("a spare that nobody needs any more leaves without a word; a process that is no spare does not wait") {
  CHECK(spare("", 0, [] { return false; }) == 0);
  espalier::torchrt::wait_as_spare();
}
