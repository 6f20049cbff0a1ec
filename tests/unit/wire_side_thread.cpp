// What is left of threads of calls when their owner, or the process, ends.
#include <doctest/doctest.h>
#include <openssl/crypto.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <thread>

#include "planner/wire/frame_tags.hpp"
#include "planner/wire/side_thread.hpp"

using namespace espalier::wire;

namespace {

std::atomic<bool> ended = false;

// Like what a library keeps for each thread: it is destroyed when the thread ends, which takes a moment here.
struct KeptForThread {
  ~KeptForThread() {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ended = true;
  }
};

int at_end = -1;  // the pipe

}  // namespace

TEST_CASE("a side thread without a call has ended when its object goes") {
  Loop loop;
  auto side = std::make_unique<SideThread>(loop, 4);
  REQUIRE(side->post([&loop]() -> std::function<void()> {
    thread_local KeptForThread kept;
    [[maybe_unused]] const void* used = &kept;
    return [&loop] { loop.stop(); };
  }));
  const Watch limit = loop.after(std::chrono::seconds(60), [&loop] { loop.stop(); });
  loop.run();
  side.reset();  // the call was over before its result came
  CHECK(ended);
}

TEST_CASE("a call that hangs holds nobody up") {
  Loop loop;
  const auto begun = std::make_shared<std::promise<void>>(), go_on = std::make_shared<std::promise<void>>();
  auto side = std::make_unique<SideThread>(loop, 4);
  REQUIRE(side->post([begun, go_on]() -> std::function<void()> {
    begun->set_value();
    go_on->get_future().wait();
    return nullptr;
  }));
  begun->get_future().wait();
  side.reset();  // returns
  go_on->set_value();
}

TEST_CASE("libcrypto frees nothing at the end of a process: threads may still use it") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    at_end = ends[1];
    hmac("key", "message");
    OPENSSL_atexit([] { [[maybe_unused]] const ssize_t told = ::write(at_end, "x", 1); });
    std::exit(0);
  }
  ::close(ends[1]);
  char told = 0;
  CHECK(::read(ends[0], &told, 1) == 0);
  ::close(ends[0]);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
}
