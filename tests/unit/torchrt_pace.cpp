// A CPU that is slowed to a device's speed.
#include <doctest/doctest.h>

#include <thread>

#include "torchrt/pace.hpp"

using namespace espalier;
using namespace espalier::torchrt;
using std::chrono::milliseconds;

namespace {

double seconds_since(Pace::Clock::time_point start) {
  return std::chrono::duration<double>(Pace::Clock::now() - start).count();
}

}  // namespace

TEST_CASE("an operation lasts until the device would have done it, and what goes on beside is called meanwhile") {
  Pace pace;
  int calls = 0;
  const auto start = Pace::Clock::now();
  const Pace::Span span = pace.hold(start, milliseconds(300), [&] { ++calls; });
  CHECK(seconds_since(start) >= 0.3);
  CHECK(calls >= 3);
  CHECK(span.start == start);
  CHECK(span.end >= start + milliseconds(300));
}

TEST_CASE("work that waited for nothing begins when the work before was done, however late that was noticed") {
  Pace pace;
  const auto start = Pace::Clock::now();
  const Pace::Span first = pace.hold(start, milliseconds(2), [] { std::this_thread::sleep_for(milliseconds(5)); });
  const auto noticed = Pace::Clock::now();
  CHECK(noticed > first.end);
  const Pace::Span second = pace.hold(noticed, milliseconds(20), [] {});
  CHECK(second.start == first.end);
  const auto waited = Pace::Clock::now() + milliseconds(5);
  CHECK(pace.hold(waited, std::chrono::nanoseconds(1), [] {}).start == waited);
}

TEST_CASE("what takes much longer than the device would shows") {
  Pace pace;
  int calls = 0;
  const auto now = Pace::Clock::now();
  const Pace::Span span = pace.hold(now - std::chrono::seconds(2), std::chrono::seconds(1), [&] { ++calls; });
  CHECK(calls == 0);
  CHECK(span.end >= now - milliseconds(10));
}
