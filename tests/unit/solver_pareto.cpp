// The Pareto dynamic programme, compared with a search through all plans.
#include <doctest/doctest.h>

#include <algorithm>

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

  TEST_CASE("coarse units and compact stages give allowed plans, none better than the best") {
    std::mt19937 random(3);
    int as_good = 0, found_any = 0;
    for (int round = 0; round < 300; ++round) {
      CAPTURE(round);
      const TinyCase one = tiny_case(random, 12, 8);
      Evaluator evaluator(one.problem());
      const ParetoResult best = pareto_search(evaluator, one.available, {});
      REQUIRE(best.complete);
      for (const ParetoLimits& limits :
           {ParetoLimits{100000, 2, false, {}}, ParetoLimits{100000, 1, true, {}}, ParetoLimits{100000, 4, true, {}}}) {
        const ParetoResult found = pareto_search(evaluator, one.available, limits);
        CHECK(found.complete);
        if (!found.best) continue;
        REQUIRE(best.best);
        CHECK(found.best->ms >= best.best->ms * (1 - 1e-9));
        CHECK(fault(one.problem(), one.available, found.best->sketch) == "");
        ++found_any;
        as_good += found.best->ms <= best.best->ms * (1 + 1e-9);
      }
    }
    CHECK(found_any > 300);
    CHECK(as_good * 10 > found_any * 5);
  }

  TEST_CASE("a unit takes GPUs of a node together, and what is beyond a multiple of it as one") {
    std::mt19937 random(4);
    int stages = 0;
    for (int round = 0; round < 200; ++round) {
      CAPTURE(round);
      const TinyCase one = tiny_case(random, 16, 8);
      Evaluator evaluator(one.problem());
      const ParetoResult found = pareto_search(evaluator, one.available, {100000, 2, false, {}});
      if (!found.best) continue;
      for (const StageSketch& stage : found.best->sketch.stages)
        for (const Piece& piece : stage.pieces) {
          const auto of = std::find_if(one.available.begin(), one.available.end(), [&](const Piece& available) {
            return available.node == piece.node && available.type == piece.type;
          });
          CHECK((piece.gpus % 2 == 0 || of->gpus % 2 == 1));
          ++stages;
        }
    }
    CHECK(stages > 200);
  }

  TEST_CASE("a search without enough work says so, keeps to its bound and gives the same again") {
    std::mt19937 random(5);
    int cut = 0, found_any = 0;
    for (int round = 0; round < 200; ++round) {
      CAPTURE(round);
      const TinyCase one = tiny_case(random, 16, 10);
      Evaluator evaluator(one.problem());
      const ParetoResult best = pareto_search(evaluator, one.available, {});
      const long most = 1 + best.labels / 3;
      const ParetoResult found = pareto_search(evaluator, one.available, {most, 1, false, {}});
      const ParetoResult again = pareto_search(evaluator, one.available, {most, 1, false, {}});
      CHECK(found.labels == again.labels);
      CHECK(found.best.has_value() == again.best.has_value());
      if (found.best) CHECK(found.best->sketch == again.best->sketch);
      if (found.complete) continue;
      ++cut;
      CHECK(found.labels < most + 1000);
      found_any += found.best.has_value();
      if (found.best) CHECK(fault(one.problem(), one.available, found.best->sketch) == "");
    }
    CHECK(cut > 50);
    CHECK(found_any > 25);
  }

  TEST_CASE("a search stops when it is told to") {
    std::mt19937 random(6);
    TinyCase one = tiny_case(random);
    one.bounds = {};
    one.job.layers = 24;
    one.job.global_batch = 64;
    one.hardware.types[0].memory_bytes = one.hardware.types[1].memory_bytes = 1e9;
    one.available.clear();
    one.topology = {};
    for (int node = 0; node < 6; ++node) {
      one.topology.add_node("n" + std::to_string(node), node % 2, {}, {});
      one.available.push_back({node, 0, 7});
    }
    Evaluator evaluator(one.problem());
    int asked = 0;
    const ParetoResult found =
        pareto_search(evaluator, one.available, {100'000'000, 1, false, [&] { return ++asked == 5; }});
    CHECK(asked == 5);
    CHECK(!found.complete);
    REQUIRE(found.best);
    CHECK(fault(one.problem(), one.available, found.best->sketch) == "");
  }
}
