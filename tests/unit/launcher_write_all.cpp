#include "launcher/world/write_all.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "planner/wire/descriptor.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

// A pipe of one page, whose writer does not block.
struct Pipe {
  wire::Descriptor reader, writer;
  Pipe() {
    int ends[2] = {-1, -1};
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    reader = wire::Descriptor(ends[0]);
    writer = wire::Descriptor(ends[1]);
    ::fcntl(writer.get(), F_SETPIPE_SZ, 4096);
    REQUIRE(::fcntl(writer.get(), F_SETFL, O_NONBLOCK) == 0);
  }
};

}  // namespace

TEST_CASE("no byte is lost on a standard output that does not block and whose reader is slow") {
  const Pipe pipe;
  std::string sent;
  for (int i = 0; i < 300'000; ++i) sent += static_cast<char>(i * 7);
  std::string read;
  std::thread slow([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    char block[5000];
    for (ssize_t count; read.size() < sent.size() && (count = ::read(pipe.reader.get(), block, sizeof block)) > 0;)
      read.append(block, static_cast<std::size_t>(count));
  });
  write_all(pipe.writer.get(), sent);
  slow.join();
  CHECK(read == sent);
}

TEST_CASE("what nobody reads any more is let go, also while a writer waits") {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  std::thread goes([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    pipe.reader.reset();
  });
  const auto start = std::chrono::steady_clock::now();
  write_all(pipe.writer.get(), std::string(300'000, 'x'));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  goes.join();
  write_all(-1, "nowhere");
  std::signal(SIGPIPE, before);
}
