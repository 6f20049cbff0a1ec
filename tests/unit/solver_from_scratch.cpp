// Planning without a present plan.
#include <doctest/doctest.h>

#include "planner/core/solver/from_scratch.hpp"
#include "tests/unit/solver_cases.hpp"

using namespace espalier;
using namespace espalier::test;

TEST_SUITE("solver") {
  TEST_CASE("a plan from scratch is the best of all plans when there is work enough") {
    std::mt19937 random(7);
    for (int round = 0; round < 200; ++round) {
      CAPTURE(round);
      const TinyCase one = tiny_case(random);
      Evaluator evaluator(one.problem());
      const double expected = best_of_all(one.problem(), one.available);
      const FromScratchResult found = plan_from_scratch(evaluator, one.available, {});
      CHECK(found.complete);
      REQUIRE(found.best.has_value() == (expected < kInfeasible));
      if (!found.best) continue;
      CHECK(found.best->ms == doctest::Approx(expected).epsilon(1e-8));
      CHECK(fault(one.problem(), one.available, found.best->sketch) == "");
    }
  }

  TEST_CASE("with less work a plan from scratch is still allowed, and faster than the incumbent") {
    std::mt19937 random(8);
    int found_any = 0;
    for (int round = 0; round < 200; ++round) {
      CAPTURE(round);
      const TinyCase one = tiny_case(random, 40, 12);
      Evaluator evaluator(one.problem());
      const FromScratchResult best = plan_from_scratch(evaluator, one.available, {20000, {}});
      if (!best.best) continue;
      const double incumbent = best.best->ms * 1.05;
      const FromScratchResult found = plan_from_scratch(evaluator, one.available, {5000, {}}, incumbent);
      CHECK(found.labels < 6000);
      if (!found.best) continue;
      ++found_any;
      CHECK(found.best->ms < incumbent);
      CHECK(fault(one.problem(), one.available, found.best->sketch) == "");
    }
    CHECK(found_any > 50);
  }

  TEST_CASE("planning from scratch stops when it is told to") {
    std::mt19937 random(9);
    for (int round = 0; round < 50; ++round) {
      const TinyCase one = tiny_case(random, 40, 12);
      Evaluator evaluator(one.problem());
      bool late = false;
      const FromScratchResult found = plan_from_scratch(evaluator, one.available, {1'000'000, [&] {
                                                                                     CHECK(!late);
                                                                                     return late = true;
                                                                                   }});
      CHECK(found.complete != late);
    }
  }
}
