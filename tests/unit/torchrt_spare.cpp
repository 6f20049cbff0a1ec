#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "launcher/world/server/fork_request.hpp"
#include "launcher/world/server/spare_origin.hpp"
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

namespace {

std::array<int, 2> ends_of_socket() {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return ends;
}

// The process that writes its first word to the socket, which must be `word`.
pid_t writer_of(int socket, char word) {
  const int on = 1;
  REQUIRE(::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
  pollfd wait{socket, POLLIN, 0};
  REQUIRE(::poll(&wait, 1, 60'000) == 1);
  const auto first = espalier::launcher::first_word(socket);
  CHECK(first.byte == word);
  return first.writer;
}

char word_of(int socket) {
  char byte = 0;
  return ::read(socket, &byte, 1) == 1 ? byte : '-';
}

// A child that becomes a fork server after `before`; the processes that it makes print their number and end with it.
struct ForkServer {
  int socket = -1;
  pid_t pid = -1;
  explicit ForkServer(const std::function<void()>& before = [] {}) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    const auto ends = ends_of_socket();
    std::fflush(nullptr);
    pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      for (int other = 3; other < 1024; ++other)  // those of other tests, and of whoever runs them
        if (other != ends[1]) ::close(other);
      ::setenv("ESPALIER_SPARE", std::to_string(ends[1]).c_str(), 1);
      ::setenv("ESPALIER_SPARE_FORKS", "1", 1);
      before();
      espalier::torchrt::wait_as_spare();
      const char* const number = std::getenv("NUMBER");
      const std::string text = std::string(number == nullptr ? "none" : number) + " " +
                               (::getpgrp() == ::getpid() ? "leads" : "follows") + "\n";
      [[maybe_unused]] const ssize_t told = ::write(1, text.data(), text.size());
      ::_exit(number == nullptr ? 99 : std::atoi(number));
    }
    ::close(ends[1]);
    socket = ends[0];
  }
  ~ForkServer() {
    ::close(socket);
    int status = -1;
    ::waitpid(pid, &status, 0);
    CHECK(status == 0);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
};

// What a process that the fork server makes prints and its exit code, if it is told to be `number`.
std::pair<std::string, int> forked(const ForkServer& server, const std::string& number) {
  const auto ends = ends_of_socket();
  std::array<int, 2> pipe{};
  REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
  REQUIRE(espalier::launcher::ask_for_fork(server.socket, ends[1], pipe[1], pipe[1]));
  ::close(ends[1]);
  ::close(pipe[1]);
  const pid_t made = writer_of(ends[0], 'r');
  const std::string environment = "NUMBER=" + number + '\0';
  REQUIRE(::write(ends[0], environment.data(), environment.size()) == static_cast<ssize_t>(environment.size()));
  ::close(ends[0]);
  std::string text;
  char byte = 0;
  while (::read(pipe[0], &byte, 1) == 1) text += byte;
  ::close(pipe[0]);
  int status = 0;
  REQUIRE(::waitpid(made, &status, 0) == made);  // it is this process's child
  return {text, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
}

}  // namespace

TEST_CASE("a fork server makes spares that are children of its parent, each with its own environment and output") {
  const ForkServer server;
  CHECK(word_of(server.socket) == 'f');
  CHECK(forked(server, "3") == std::pair<std::string, int>("3 leads\n", 3));
  CHECK(forked(server, "4") == std::pair<std::string, int>("4 leads\n", 4));
}

TEST_CASE("a fork server goes on after a request without descriptors") {
  const ForkServer server;
  CHECK(word_of(server.socket) == 'f');
  REQUIRE(::write(server.socket, "f", 1) == 1);
  CHECK(forked(server, "5") == std::pair<std::string, int>("5 leads\n", 5));
}

TEST_CASE("a spare that nobody told who it is leaves without a word") {
  const ForkServer server;
  CHECK(word_of(server.socket) == 'f');
  const auto ends = ends_of_socket();
  REQUIRE(espalier::launcher::ask_for_fork(server.socket, ends[1], 1, 2));
  ::close(ends[1]);
  const pid_t made = writer_of(ends[0], 'r');
  ::close(ends[0]);
  int status = -1;
  REQUIRE(::waitpid(made, &status, 0) == made);
  CHECK(status == 0);
}

TEST_CASE("a process with other threads, or an open file, is no fork server, but a spare like any") {
  std::function<void()> before;
  SUBCASE("a thread") {
    before = [] { std::thread([] { ::pause(); }).detach(); };
  }
  SUBCASE("a file") {
    before = [] { REQUIRE(::open("/dev/zero", O_RDONLY) > 2); };
  }
  const ForkServer server(before);
  CHECK(word_of(server.socket) == 'r');
  const std::string environment("NUMBER=0\0", 9);
  REQUIRE(::write(server.socket, environment.data(), environment.size()) == 9);
}

TEST_CASE("a spare that nobody needs any more leaves without a word; a process that is no spare does not wait") {
  CHECK(spare("", 0, [] { return false; }) == 0);
  espalier::torchrt::wait_as_spare();
}
