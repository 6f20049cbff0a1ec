// The benchmarks of plans measure the right quantities.
#include <doctest/doctest.h>

#include <set>

#include "tests/bench/planner/optimality.hpp"
#include "tests/bench/planner/versus.hpp"

using namespace espalier;
using namespace espalier::bench;

TEST_SUITE("bench") {
  TEST_CASE("every job of the paper fits with its default plan") {
    for (const PaperJob& job : paper_jobs()) {
      CAPTURE(job.model);
      const Site site = paper_cluster((job.gpus() + 7) / 8, 16);
      const JobCoefficients coefficients = paper_coefficients(job, paper_batch(job), site.hardware);
      const PlanBounds bounds;
      Evaluator evaluator({site.hardware, site.topology, coefficients, bounds});
      PlanSketch plan;
      CHECK_NOTHROW(plan = default_plan(evaluator, job));
      CHECK(plan.gpus() == job.gpus());
      CHECK(evaluator.score_sketch(plan) < kInfeasible);
    }
  }

  TEST_CASE("random instances are the same for the same seed, within their limits, and of all sorts") {
    int mixed = 0, tight = 0, leaves = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      CAPTURE(seed);
      const auto made = make_instance(seed, seed % 2 == 0 ? Start::best : Start::random);
      const auto again = make_instance(seed, seed % 2 == 0 ? Start::best : Start::random);
      CHECK(made->job == again->job);
      CHECK(made->hardware == again->hardware);
      CHECK(made->held == again->held);
      CHECK(made->units == again->units);
      CHECK(made->present == again->present);
      CHECK(count_gpus(made->held) <= 8);
      CHECK(made->present.gpus() == count_gpus(made->held));
      CHECK(made->units.size() >= 1);
      CHECK(made->units.size() <= 8);
      CHECK(made->job.layers <= 12);
      Evaluator evaluator(made->problem());
      CHECK(evaluator.score_sketch(made->present) < kInfeasible);
      std::set<int> types, racks;
      for (const Piece& piece : made->all()) types.insert(piece.type), racks.insert(made->topology.leaf(piece.node));
      mixed += types.size() > 1;
      leaves += racks.size() > 1;
      tight += made->hardware.types[0].memory_bytes < 40e9;
    }
    CHECK(mixed > 15);
    CHECK(leaves > 15);
    CHECK(tight > 10);
  }

  TEST_CASE("no plan is better than the optimum, and the planner's hardly worse") {
    double sum = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      CAPTURE(seed);
      const Optimality found = measure_optimality(*make_instance(seed, seed % 2 == 0 ? Start::best : Start::random));
      CHECK(found.planner <= 1 + 1e-9);
      CHECK(found.algorithm1 <= 1 + 1e-9);
      CHECK(found.algorithm1 > 0);
      sum += found.planner;
    }
    CHECK(sum / 60 > 0.99);
  }

  TEST_CASE("with a decision's effort a plan is between Algorithm 1's and the optimum, in the mean") {
    double sum = 0, printed = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      CAPTURE(seed);
      const Optimality found =
          measure_optimality(*make_instance(seed, seed % 2 == 0 ? Start::best : Start::random), Effort::daemon);
      CHECK(found.planner <= 1 + 1e-9);
      CHECK(found.planner > 0);
      sum += found.planner;
      printed += found.algorithm1;
    }
    CHECK(sum / 60 > 0.95);
    CHECK(sum > printed);
  }

  TEST_CASE("a job that grows is compared at every count, with GPUs that it holds") {
    const std::vector<int> counts{16, 19, 24};
    std::vector<int> seen;
    const auto rows = measure_versus(paper_job("llama2-13b"), counts, {10, 100'000},
                                     [&](const VersusRow& row) { seen.push_back(row.gpus); });
    CHECK(seen == counts);
    REQUIRE(rows.size() == 3);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      CHECK(rows[i].best <= rows[i].planner);
      CHECK(rows[i].planner < 1.1 * rows[i].best);
      if (i > 0) CHECK(rows[i].planner < rows[i - 1].planner);
    }
  }
}
