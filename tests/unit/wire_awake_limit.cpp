#include "planner/wire/awake_limit.hpp"

#include <doctest/doctest.h>

using namespace espalier::wire;
using namespace std::chrono_literals;

TEST_CASE("a limit is over after its time, in looks that are short") {
  AwakeLimit limit(2500ms);
  AwakeLimit::Time now{};
  CHECK(limit.begin_look(now) == 1000ms);
  limit.end_look(now += 1000ms);
  CHECK(limit.begin_look(now) == 1000ms);
  limit.end_look(now += 1004ms);  // a look may be a little late
  CHECK(limit.begin_look(now) == 496ms);
  CHECK_FALSE(limit.over());
  limit.end_look(now += 500ms);
  CHECK(limit.over());
  CHECK(limit.begin_look(now) == 0ms);
  CHECK(limit.time() == 2500ms);
}

TEST_CASE("a look that ends early counts as long as it was") {
  AwakeLimit limit(2s);
  AwakeLimit::Time now{};
  for (int i = 0; i < 20; ++i) {
    CHECK_FALSE(limit.over());
    limit.begin_look(now);
    limit.end_look(now += 100ms);
  }
  CHECK(limit.over());
}

TEST_CASE("of a look that is late by more than five seconds only the planned time counts") {
  AwakeLimit limit(10s);
  AwakeLimit::Time now{};
  limit.begin_look(now);
  limit.end_look(now += 1h);
  for (int i = 0; i < 9; ++i) {
    CHECK_FALSE(limit.over());
    limit.begin_look(now);
    limit.end_look(now += 1s);
  }
  CHECK(limit.over());
  AwakeLimit slow(10s);
  slow.begin_look(now);
  slow.end_look(now += 6s);  // load
  slow.begin_look(now);
  slow.end_look(now += 4s);
  CHECK(slow.over());
}
