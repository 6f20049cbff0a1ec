// A CPU that is slowed to a device's speed.
#include <doctest/doctest.h>

#include <thread>

#include "planner/core/error.hpp"
#include "torchrt/pace.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

double seconds_since(Pace::Clock::time_point start) {
  return std::chrono::duration<double>(Pace::Clock::now() - start).count();
}

}  // namespace

TEST_CASE("an operation lasts until the device would have done it, and what goes on beside is called meanwhile") {
  Pace pace(1e9);
  int calls = 0;
  const auto start = Pace::Clock::now();
  const Pace::Span span = pace.hold(start, 3e8, [&] { ++calls; });
  CHECK(seconds_since(start) >= 0.3);
  CHECK(calls >= 3);
  CHECK(span.start == start);
  CHECK(span.end >= start + std::chrono::milliseconds(300));
}

TEST_CASE("work that waited for nothing begins when the work before was done, however late that was noticed") {
  Pace pace(1e9);
  const auto start = Pace::Clock::now();
  // 2 ms of work.
  const Pace::Span first = pace.hold(start, 2e6, [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
  const auto noticed = Pace::Clock::now();
  CHECK(noticed > first.end);
  const Pace::Span second = pace.hold(noticed, 2e7, [] {});
  CHECK(second.start == first.end);
  const auto waited = Pace::Clock::now() + std::chrono::milliseconds(5);
  CHECK(pace.hold(waited, 1, [] {}).start == waited);
}

TEST_CASE("what takes much longer than the device would shows") {
  Pace pace(1e9);
  int calls = 0;
  const auto now = Pace::Clock::now();
  const Pace::Span span = pace.hold(now - std::chrono::seconds(2), 1e9, [&] { ++calls; });
  CHECK(calls == 0);
  CHECK(span.end >= now - std::chrono::milliseconds(10));
}

TEST_CASE("there is no pace unless asked for, and none for a GPU") {
  CHECK_FALSE(make_pace({}, DeviceKind::cpu));
  CHECK_FALSE(make_pace({}, DeviceKind::cuda));
  CHECK(make_pace({0.5}, DeviceKind::cpu));
  CHECK_THROWS_WITH_AS(make_pace({0.5}, DeviceKind::cuda),
                       "device.gflops: slows a CPU down and is not for GPUs; remove it, or train with espalier-train "
                       "instead of espalier-train-cuda",
                       Error);
}
