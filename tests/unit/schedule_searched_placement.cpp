// The placement of an automatic plan's chunks, by what the search for lists reaches with it.
#include "planner/core/schedule/searched_placement.hpp"

#include <doctest/doctest.h>

#include "planner/core/model/evaluate_plan.hpp"
#include "tests/bench/planner/random_pipeline.hpp"
#include "tests/unit/schedule_cases.hpp"

using namespace espalier;

namespace {

struct Case : bench::RandomPipeline {
  ElasticJob job;

  explicit Case(pipeline::Chance& chance) : RandomPipeline(chance, {6, 3, 4}) {
    job.model.setting.emplace().schedule = "auto";
  }
  std::vector<PlacementReach> reaches() const { return placement_reaches(plan, sketch, problem()); }
  Plan chosen() const { return with_searched_placement(plan, sketch, problem(), job); }
  Prediction named(const Plan& one) const { return evaluate_plan(hardware, topology, known, one); }
};

bool same_placement(const Plan& a, const Plan& b) {
  const PipelineForm x = form_of(a), y = form_of(b);
  return x.chunks == y.chunks && x.v_shaped() == y.v_shaped();
}

}  // namespace

TEST_CASE("searched placement: of each placement a plan that fits, whose lists are never slower than its schedule") {
  pipeline::Chance chance(7);
  int several = 0;
  for (int round = 0; round < 20; ++round) {
    const Case one(chance);
    CAPTURE(round);
    const auto list = one.reaches();
    if (!one.fits || list.empty()) continue;
    several += list.size() > 1 ? 1 : 0;
    CHECK(list.front().plan == one.plan);
    for (std::size_t a = 0; a < list.size(); ++a) {
      const Prediction named = one.named(list[a].plan);
      CHECK(named.feasible);
      CHECK(named.exact_ms == doctest::Approx(list[a].named_ms));
      CHECK(list[a].searched_ms <= named.exact_ms * (1 + 1e-6));
      CHECK(list[a].plan.ranks() == one.plan.ranks());
      CHECK(list[a].plan.micro_batches == one.plan.micro_batches);
      CHECK(validate(list[a].plan, one.known.layers).empty());
      for (std::size_t b = 0; b < a; ++b) CHECK_FALSE(same_placement(list[a].plan, list[b].plan));
    }
  }
  CHECK(several > 10);
  // The plan's own comes first, though another schedule of its placement is faster.
  Case slow(chance);
  slow.hardware.types[0].memory_bytes = 1e15;
  slow.plan.chunks.clear();
  slow.plan = with_form(std::move(slow.plan), pipeline_form("memory-min", 1));
  REQUIRE_FALSE(slow.reaches().empty());
  CHECK(slow.reaches().front().plan == slow.plan);
  CHECK(slow.reaches().front().named_ms > slow.reaches().back().named_ms);
}

TEST_CASE("searched placement: another one only where its lists are faster and its known schedule is not much slower") {
  pipeline::Chance chance(8);
  int changed = 0, compared = 0;
  for (int round = 0; round < 40; ++round) {
    const Case one(chance);
    CAPTURE(round);
    const auto list = one.reaches();
    if (!one.fits || list.empty()) continue;
    ++compared;
    const Plan chosen = one.chosen();
    CHECK(chosen == one.chosen());
    const auto at = std::find_if(list.begin(), list.end(), [&](const auto& reach) { return reach.plan == chosen; });
    REQUIRE(at != list.end());
    CHECK(at->named_ms <= 1.02 * list.front().named_ms);
    for (const PlacementReach& reach : list)
      if (reach.named_ms <= 1.02 * list.front().named_ms)
        CHECK(at->searched_ms <= reach.searched_ms / 0.98 * (1 + 1e-12));
    if (chosen == one.plan) continue;
    ++changed;
    CHECK(at->searched_ms < 0.98 * list.front().searched_ms);
  }
  CHECK(compared > 20);
  CHECK(changed > 2);
}

TEST_CASE("searched placement: a plan that fits by no estimate, of one stage or of too many operations stays") {
  pipeline::Chance chance(9);
  Case small(chance);
  small.hardware.types[0].memory_bytes = 1;
  CHECK(small.reaches().empty());
  CHECK(small.chosen() == small.plan);
  Case single(chance);
  single.plan = uniform_plan(1, 1, single.known.layers, 4, 4, {{"n0", 0}});
  single.sketch.stages.resize(1);
  CHECK(single.reaches().empty());
  CHECK(single.chosen() == single.plan);
  Case many(chance);
  many.hardware.types[0].memory_bytes = 1e15;
  many.plan.chunks.clear();
  many.plan.micro_batches = many.plan.global_batch = 4000;
  CHECK(many.reaches().empty());
  CHECK(many.chosen() == many.plan);
}

TEST_CASE("searched placement: a job that names its schedule, and a plan that its user gave, keep it") {
  pipeline::Chance chance(8);
  for (int round = 0; round < 40; ++round) {
    Case one(chance);
    if (one.chosen() == one.plan) continue;
    one.job.parallel.first = one.plan;
    CHECK(one.chosen() == one.plan);
    one.job.parallel.first.reset();
    one.job.model.setting->schedule = form_of(one.plan).schedule();
    CHECK(one.chosen() == one.plan);
    return;
  }
  FAIL("no plan was placed otherwise");
}

namespace {

// Of a job on two GPUs of a node of eight, which leaves its schedule to the planner and was measured.
std::vector<Decision> growths(double memory_bytes) {
  ElasticJob one = test::job(10, "n1", {0, 1}, 8);
  one.model = {"gpt2", 32, 512, 8, 256, 1000, 8, 8};
  one.model.setting.emplace().schedule = "auto";
  one.parallel.dp = one.parallel.tp = 1;
  one.parallel.micro_batches = 8;
  one.plan = uniform_plan(2, 1, 32, 8, 8, one.plan->ranks());
  PlanningInput input = test::input_of({test::node("n1", 8)}, {one});
  auto site = std::make_shared<Site>(*neutral_site(input.cluster));
  for (GpuType& type : site->hardware.types) type.memory_bytes = memory_bytes;
  input.site = site;
  JobCoefficients known;
  known.layers = 32;
  known.global_batch = 8;
  known.activ_bytes = 1e6;
  known.param_bytes = 1e8;
  known.param_optim_bytes = 3e8;
  known.weight_bytes = 1e8;
  known.activ_p_bytes = 4e8;
  known.deferred = 0.33;
  known.last.compute_layers = 2;
  known.gpu.assign(site->hardware.types.size(), {10, 2, 1, 1, false, false, false, false});
  input.coefficients[10] = known;
  return test::decide(input);
}

}  // namespace

TEST_CASE("searched placement: a growth of a measured job begins with it, and says so") {
  int placed = 0, grown = 0;
  for (const double gigabytes : {4.0, 8.0, 16.0}) {
    CAPTURE(gigabytes);
    for (const Decision& decision : growths(gigabytes * 1e9)) {
      grown += decision.kind == DecisionKind::grow ? 1 : 0;
      if (decision.reason.find(kPlacedBySearch) == std::string::npos) continue;
      ++placed;
      CHECK(validate(decision.plan, 32).empty());
      CHECK(decision.plan.gpu_count() > 2);
      CHECK(decision.reason.find("; its chunks lie where") != std::string::npos);
    }
  }
  CHECK(grown == 3);
  CHECK(placed > 0);
}
