#include <doctest/doctest.h>

#include "planner/core/schedule/urgency.hpp"
#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

TEST_CASE("a deadline weighs as much as the work exceeds the time, between once and four times") {
  ElasticJob one = job(10, "n1", {0, 1});
  one.total_steps = 1000;
  one.step = 400;  // 600 s of work
  CHECK(urgency(one, 1000) == 1);
  one.deadline = 1000 + 1200;
  CHECK(urgency(one, 1000) == 1);
  one.deadline = 1000 + 400;
  CHECK(urgency(one, 1000) == doctest::Approx(1.5));
  one.deadline = 1000 + 10;
  CHECK(urgency(one, 1000) == 4);
  one.deadline = 999;
  CHECK(urgency(one, 1000) == 1);
  one.deadline = 1000 + 10;
  one.step_seconds = 0;
  CHECK(urgency(one, 1000) == 1);
}

TEST_CASE("of two equal jobs that want the same idle GPUs, the one with a near deadline gets them") {
  for (const JobId urgent : {10u, 11u}) {
    std::vector<ElasticJob> jobs{job(10, "n1", {0, 1}, 4), job(11, "n1", {2, 3}, 4)};
    for (ElasticJob& one : jobs) {
      one.total_steps = 10'000;
      if (one.id == urgent) one.deadline = 1000 + 4000;
    }
    const auto decisions = decide(input_of({node("n1", 6)}, jobs));
    REQUIRE(decisions.size() == 1);
    CHECK(decisions[0].job == urgent);
  }
}
