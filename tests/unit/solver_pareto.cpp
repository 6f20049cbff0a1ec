// The Pareto dynamic programme against a search through all plans.
#include <doctest/doctest.h>

#include "planner/core/solver/pareto.hpp"
#include "tests/unit/solver_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

void check_against_all(const TinyCase& one, double expected, const ParetoResult& found) {
  REQUIRE(found.complete);
  REQUIRE(found.best.has_value() == (expected < kInfeasible));
  if (!found.best) return;
  CHECK(found.best->ms == doctest::Approx(expected).epsilon(1e-8));
  CHECK(fault(one.problem(), one.available, found.best->sketch) == "");
  CHECK(found.best->ms == doctest::Approx(plain_time(one.problem(), found.best->sketch)).epsilon(1e-12));
}

}  // namespace

TEST_SUITE("solver") {
  TEST_CASE("the Pareto search finds the best of all plans") {
    std::mt19937 random(1);
    int feasible = 0;
    for (int round = 0; round < 600; ++round) {
      CAPTURE(round);
      const TinyCase one = tiny_case(random);
      Evaluator evaluator(one.problem());
      const double expected = best_of_all(one.problem(), one.available);
      feasible += expected < kInfeasible;
      check_against_all(one, expected, pareto_search(evaluator, one.available, {}));
    }
    CHECK(feasible > 300);
  }

  TEST_CASE("the Pareto search looks only for plans faster than its incumbent") {
    std::mt19937 random(2);
    for (int round = 0; round < 200; ++round) {
      CAPTURE(round);
      const TinyCase one = tiny_case(random);
      Evaluator evaluator(one.problem());
      const double expected = best_of_all(one.problem(), one.available);
      if (expected == kInfeasible) continue;
      check_against_all(one, expected, pareto_search(evaluator, one.available, {}, expected * 1.001));
      const ParetoResult none = pareto_search(evaluator, one.available, {}, expected);
      CHECK(none.complete);
      CHECK(!none.best);
    }
  }
}
