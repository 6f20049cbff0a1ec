#include "launcher/process/awake_timer.hpp"

#include <doctest/doctest.h>

#include <thread>

#include "planner/wire/clock.hpp"

using namespace espalier;
using namespace espalier::launcher;
using namespace std::chrono_literals;

namespace {

struct Limits {
  wire::Loop loop;
  AwakeTimer timer{loop, {10ms, 200ms}};
  std::chrono::steady_clock::time_point start = wire::steady_now();
  std::chrono::milliseconds over_after() {
    loop.run();
    return std::chrono::duration_cast<std::chrono::milliseconds>(wire::steady_now() - start);
  }
};

}  // namespace

TEST_CASE("a limit is over after its time") {
  Limits one;
  one.timer.start(100ms, [&] { one.loop.stop(); });
  CHECK(one.over_after() >= 100ms);
}

TEST_CASE("time in which the process stood still does not count") {
  Limits one;
  one.timer.start(300ms, [&] { one.loop.stop(); });
  const auto stands = one.loop.after(50ms, [] { std::this_thread::sleep_for(1s); });
  CHECK(one.over_after() >= 1250ms);  // all but the look before it stood still and the one after
}

TEST_CASE("a limit that is stopped or begins anew is not over") {
  Limits one;
  int first = 0;
  one.timer.start(20ms, [&] { ++first; });
  one.timer.stop();
  const auto end = one.loop.after(100ms, [&] { one.loop.stop(); });
  one.loop.run();
  one.timer.start(20ms, [&] { ++first; });
  one.timer.start(50ms, [&] { one.loop.stop(); });
  one.loop.run();
  CHECK(first == 0);
}

TEST_CASE("a limit's end may begin another one") {
  Limits one;
  one.timer.start(20ms, [&] { one.timer.start(20ms, [&] { one.loop.stop(); }); });
  CHECK(one.over_after() >= 40ms);
}
