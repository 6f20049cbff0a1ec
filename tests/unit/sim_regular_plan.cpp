// Symmetric plans of the baselines.
#include <doctest/doctest.h>

#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/schedule/materialize.hpp"
#include "planner/sim/paper_jobs.hpp"
#include "planner/sim/policies/regular_plan.hpp"
#include "tests/bench/planner/paper_cluster.hpp"

using namespace espalier;
using namespace espalier::sim;

namespace {

struct Case {
  explicit Case(const char* model, bool equal_shares = false)
      : site(bench::paper_cluster(4, 16)), job(paper_coefficients(paper_job(model), 256, site.hardware)) {
    bounds.equal_shares = equal_shares;
  }
  Evaluator evaluator() const { return Evaluator(Problem{site.hardware, site.topology, job, bounds}); }
  Site site;
  JobCoefficients job;
  PlanBounds bounds;
};

}  // namespace

TEST_SUITE("regular plans") {
  TEST_CASE("stages take TP groups node by node") {
    const Case one("llama2-7b");
    auto evaluator = one.evaluator();
    const auto plan = regular_plan(evaluator, {2, 3, 2}, std::vector<Piece>{{0, 0, 4}, {2, 0, 8}});
    REQUIRE(plan);
    REQUIRE(plan->sketch.stages.size() == 2);
    CHECK(plan->sketch.stages[0].pieces == std::vector<Piece>{{0, 0, 4}, {2, 0, 2}});
    CHECK(plan->sketch.stages[1].pieces == std::vector<Piece>{{2, 0, 6}});
    CHECK(plan->sketch.stages[0].layers == 16);
    CHECK(plan->sketch.stages[1].layers == 16);
  }

  TEST_CASE("its time is the model's for the real plan, but for what crosses stages") {
    const Case one("llama2-7b");
    auto evaluator = one.evaluator();
    const std::vector<Piece> pieces{{0, 0, 8}};
    const auto plan = regular_plan(evaluator, {1, 4, 2}, pieces);
    REQUIRE(plan);
    const auto real =
        materialize(evaluator.problem(), plan->sketch, {}, std::vector<NodeGpus>{{0, {0, 1, 2, 3, 4, 5, 6, 7}}});
    REQUIRE(real);
    CHECK(validate(*real, one.job.layers).empty());
    const Prediction prediction = evaluate_plan(one.site.hardware, one.site.topology, one.job, *real);
    CHECK(prediction.feasible);
    CHECK(prediction.exact_ms == doctest::Approx(plan->ms));
  }

  TEST_CASE("no replica spans nodes, no GPU is left over, no stage is without a layer") {
    const Case one("gpt2-350m");
    auto evaluator = one.evaluator();
    CHECK_FALSE(regular_plan(evaluator, {1, 1, 4}, std::vector<Piece>{{0, 0, 2}, {1, 0, 2}}));
    CHECK_FALSE(regular_plan(evaluator, {1, 2, 1}, std::vector<Piece>{{0, 0, 4}}));
    CHECK_FALSE(regular_plan(evaluator, {32, 1, 1}, std::vector<Piece>{{0, 0, 8}, {1, 0, 8}, {2, 0, 8}, {3, 0, 8}}));
    CHECK(regular_plan(evaluator, {24, 1, 1}, std::vector<Piece>{{0, 0, 8}, {1, 0, 8}, {2, 0, 8}}));
  }

  TEST_CASE("what does not fit into memory is no plan") {
    const Case one("llama2-13b");
    auto evaluator = one.evaluator();
    CHECK_FALSE(regular_plan(evaluator, {1, 1, 1}, std::vector<Piece>{{0, 0, 1}}));
    CHECK(regular_plan(evaluator, {1, 1, 4}, std::vector<Piece>{{0, 0, 4}}));
  }

  TEST_CASE("even degrees divide layers and batch") {
    const Case one("qwen2-7b");  // 28 layers, 28 heads: TP 1, 2 and 4
    for (const Degrees& degrees : even_degrees(one.job, 64)) {
      CHECK(28 % degrees.pp == 0);
      CHECK(256 % degrees.dp == 0);
      CHECK(28 % degrees.tp == 0);
      CHECK(degrees.gpus() <= 64);
    }
    CHECK(even_degrees(one.job, 1).size() == 1);
  }

  TEST_CASE("the fastest even plan is at least as fast as any, and gives all replicas equal shares") {
    const Case one("llama2-7b", true);
    auto evaluator = one.evaluator();
    const std::vector<Piece> pieces{{0, 0, 8}, {1, 0, 8}};
    const auto fastest = fastest_even_plan(evaluator, pieces);
    REQUIRE(fastest);
    CHECK(fastest->sketch.gpus() == 16);
    for (const Degrees& degrees : even_degrees(one.job, 16)) {
      if (degrees.gpus() != 16) continue;
      const auto plan = regular_plan(evaluator, degrees, pieces);
      if (plan) CHECK(fastest->ms <= plan->ms);
    }
    const int dp = fastest->sketch.stages.front().gpus() / fastest->sketch.stages.front().tp;
    CHECK(256 / fastest->sketch.micro_batches % dp == 0);
    // With 13 GPUs, neither 13 stages divide 32 layers nor 13 replicas 256 samples.
    CHECK_FALSE(fastest_even_plan(evaluator, std::vector<Piece>{{0, 0, 8}, {1, 0, 5}}));
  }
}
