// Metis in the place of Algorithm 1.
#include <doctest/doctest.h>

#include "planner/sim/paper_jobs.hpp"
#include "planner/sim/policies/metis_solver.hpp"
#include "planner/sim/policies/regular_plan.hpp"
#include "tests/bench/planner/paper_cluster.hpp"

using namespace espalier;
using namespace espalier::sim;

TEST_SUITE("metis") {
  TEST_CASE("its searches take what was measured, and 60 s in between") {
    CHECK(metis_seconds(8) == doctest::Approx(0.13));
    CHECK(metis_seconds(16) == doctest::Approx(2.4));
    CHECK(metis_seconds(32) == doctest::Approx(19));
    CHECK(metis_seconds(64) == doctest::Approx(75));
    // From 32 to 64: 19 * (n / 32)^1.981, so 60 s are reached at 57.2.
    CHECK(metis_seconds(57) < 60);
    CHECK(metis_seconds(58) > 60);
    CHECK(metis_seconds(4) < 0.01);
    CHECK(metis_seconds(128) > 290);
  }

  TEST_CASE("searches in parallel take as long as the longest, or as all on the cores there are") {
    CHECK(parallel_seconds(19, 40, 128) == 19);
    CHECK(parallel_seconds(19, 1280, 10) == 128);
    CHECK(parallel_seconds(0, 0, 128) == 0);
  }

  TEST_CASE("every prefix has the best plan from scratch, and none beyond the budget") {
    const Site site = bench::paper_cluster(8, 16);
    const JobCoefficients job = paper_coefficients(paper_job("llama2-7b"), 256, site.hardware);
    const PlanBounds bounds;
    Evaluator evaluator(Problem{site.hardware, site.topology, job, bounds});
    std::vector<Piece> held;
    for (int node = 0; node < 6; ++node) held.push_back({node, 0, 8});
    auto regular = regular_plan(evaluator, {1, 12, 4}, held);
    REQUIRE(regular);
    const WorkingPlan present = working_plan(evaluator, regular->sketch, true);
    const std::vector<Piece> units{{6, 0, 8}, {7, 0, 8}};
    MetisSolver solver;
    const auto plans = solver.solve(evaluator, present, units, {});
    REQUIRE(plans.size() == 3);
    CHECK(plans[0].plan.ms == present.ms);
    CHECK(plans[1].gpus == 8);
    CHECK(plans[1].plan.feasible());
    CHECK(plans[1].plan.ms < present.ms);
    CHECK(plans[1].plan.sketch.gpus() <= 56);
    CHECK(plans[2].gpus == 16);
    CHECK_FALSE(plans[2].plan.feasible());  // 64 GPUs would take 75 s
    CHECK(solver.take_seconds() == doctest::Approx(60));
    CHECK(solver.take_seconds() == 0);

    // Known plans are not searched for again.
    auto known = plans;
    known.resize(2);
    const auto again = solver.solve(evaluator, present, std::span(units).first(1), std::move(known));
    CHECK(again.size() == 2);
    CHECK(again[1].plan.ms == plans[1].plan.ms);
    CHECK(solver.take_seconds() == 0);
  }
}
