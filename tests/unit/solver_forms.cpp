// Pipeline schedules and chunks as a dimension of the search for plans.
#include <doctest/doctest.h>

#include <random>

#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/schedule/first_plan.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/solver/best_plan.hpp"
#include "planner/core/solver/evaluator.hpp"
#include "planner/core/topology/from_view.hpp"
#include "tests/unit/solver_cases.hpp"

using namespace espalier;

namespace {

std::vector<PipelineForm> all_forms() {
  const auto forms = forms_of(kAutomaticSchedule, 0, false);
  return {forms.begin(), forms.end()};
}

Site eight_gpus(double memory_bytes) {
  NodeView node;
  node.name = "n1";
  node.gpu_type = "h100";
  node.gpu_owner.assign(8, 0);
  ClusterView view;
  view.nodes = {node};
  Site site = site_from_view(view, {}).site;
  if (memory_bytes > 0) site.hardware.types.front().memory_bytes = memory_bytes;
  return site;
}

// A pipeline of eight stages, two layers each.
ElasticJob pipeline_job(const std::string& schedule, int chunks = 0) {
  ElasticJob job;
  job.id = 7;
  job.model = {"llama", 16, 2048, 16, 1024, 2048, 16, 16};
  job.model.setting.emplace().schedule = schedule;
  job.parallel.chunks = chunks;
  job.parallel.v_shaped = chunks == 2 && schedule != "interleaved";
  job.parallel.dp = 1;
  job.parallel.tp = 1;
  job.max_gpus = 8;
  job.anchor = {{7, "n1", {0, 1, 2, 3, 4, 5, 6, 7}}};
  return job;
}

FirstPlan plan_of(const ElasticJob& job, const Site& site) {
  return first_plan(job, site, sheet_for(job, site), RankOrder::planned);
}

}  // namespace

TEST_CASE("the score of all schedules together is that of the best one alone") {
  std::mt19937 random(3);
  const auto forms = all_forms();
  int other = 0;
  for (int round = 0; round < 150; ++round) {
    const test::TinyCase tiny = test::tiny_case(random, 6, 12);
    Problem problem = tiny.problem();
    problem.forms = forms;
    Evaluator together(problem);
    const auto found = best_plan(together, tiny.available, {}, {2, 10, 0});
    if (!found) continue;
    PlanSketch sketch = found->sketch;
    const Score best = together.balance_sketch(sketch);
    REQUIRE(best.feasible());
    CHECK(sketch.form == best.form);
    CHECK(together.score_sketch(sketch) == doctest::Approx(best.ms));
    CHECK(together.exact_sketch(sketch) < kInfeasible);
    double least = kInfeasible;
    for (std::size_t f = 0; f < forms.size(); ++f) {
      // Two entries: the estimate of 1F1B alone would be the printed one.
      const std::vector<PipelineForm> alone{forms[f], forms[f]};
      problem.forms = alone;
      Evaluator one(problem);
      PlanSketch same = sketch;
      least = std::min(least, one.balance_sketch(same).ms);
    }
    CHECK(best.ms == doctest::Approx(least));
    other += best.form.plain() ? 0 : 1;
  }
  CHECK(other > 20);
}

TEST_CASE("the search with all schedules is seldom worse than with 1F1B, and then by little") {
  std::mt19937 random(4);
  const auto forms = all_forms();
  int worse = 0, better = 0;
  for (int round = 0; round < 60; ++round) {
    const test::TinyCase tiny = test::tiny_case(random, 6, 8);
    Problem problem = tiny.problem();
    const std::vector<PipelineForm> plain{{}, {}};
    problem.forms = plain;
    Evaluator one(problem);
    problem.forms = forms;
    Evaluator all(problem);
    const auto single = best_plan(one, tiny.available, {}, {3, 20, 20'000});
    const auto found = best_plan(all, tiny.available, {}, {3, 20, 20'000});
    CHECK((found.has_value() || !single.has_value()));
    if (!found || !single) continue;
    CHECK(found->ms <= single->ms * 1.03);
    worse += found->ms > single->ms * (1 + 1e-9) ? 1 : 0;
    better += found->ms < single->ms * (1 - 1e-3) ? 1 : 0;
  }
  CHECK(worse <= 3);
  CHECK(better > 10);
}

TEST_CASE("a job with a schedule is planned with that schedule's time and memory") {
  const Site site = eight_gpus(0);
  const FirstPlan plain = plan_of(pipeline_job("1f1b"), site), back = plan_of(pipeline_job("zb-v, 2 chunks", 2), site),
                  rounds = plan_of(pipeline_job("interleaved, 2 chunks", 2), site);
  CHECK(plain.plan.schedule.empty());
  CHECK(back.plan.schedule == "zb-v");
  CHECK(back.plan.chunks.size() == 16);
  CHECK(rounds.plan.schedule == "interleaved");
  CHECK(back.ms < rounds.ms);
  CHECK(rounds.ms < plain.ms);
  // The V puts embedding and head on the first stage, and every stage holds as much as 1F1B's first one.
  const auto coefficients = sheet_for(pipeline_job("zb-v, 2 chunks", 2), site);
  const auto memory = [&](const Plan& plan) {
    return evaluate_plan(site.hardware, site.topology, coefficients, plan).stages;
  };
  const auto v = memory(back.plan);
  CHECK(v.front().memory.edge > 0);
  CHECK(v.back().memory.edge == 0);
  CHECK(v.back().memory.activations == doctest::Approx(v.front().memory.activations).epsilon(0.01));
  Plan half = back.plan;
  half.schedule = "v-half";
  CHECK(memory(half).front().memory.activations < 0.75 * v.front().memory.activations);
  CHECK(evaluate_plan(site.hardware, site.topology, coefficients, half).exact_ms > back.ms);
}

TEST_CASE("with \"auto\" the planner chooses the fastest schedule that fits into memory") {
  const Site roomy = eight_gpus(0);
  const ElasticJob job = pipeline_job("auto");
  const FirstPlan best = plan_of(job, roomy);
  CHECK(best.plan.schedule == "zb-v");
  const auto coefficients = sheet_for(job, roomy);
  double fullest = 0, least = 1e30;
  Plan slim = best.plan;
  slim.schedule = "v-half";
  for (const auto& stage : evaluate_plan(roomy.hardware, roomy.topology, coefficients, best.plan).stages)
    fullest = std::max(fullest, stage.memory.peak);
  least = 0;
  for (const auto& stage : evaluate_plan(roomy.hardware, roomy.topology, coefficients, slim).stages)
    least = std::max(least, stage.memory.peak);
  REQUIRE(least < fullest);
  // Too little for zb-v at this number of micro-batches: whatever is chosen fits, and is not slower than what 1F1B
  // would do there.
  const Site tight = eight_gpus((least + fullest) / 2 / roomy.hardware.memory_share);
  const FirstPlan fits = plan_of(job, tight);
  CHECK(fits.remark.empty());
  const auto inside = evaluate_plan(tight.hardware, tight.topology, sheet_for(job, tight), fits.plan);
  CHECK(inside.feasible);
  CHECK(plan_of(pipeline_job("1f1b"), tight).ms >= fits.ms * (1 - 1e-9));
}

TEST_CASE("stages with too few layers for the chunks run 1F1B, and are planned so") {
  const Site site = eight_gpus(0);
  ElasticJob job = pipeline_job("zb-v, 2 chunks", 2);
  job.model.layers = 8;
  const FirstPlan first = plan_of(job, site);
  CHECK(form_of(first.plan) == PipelineForm{});
  CHECK(first.plan.chunks.empty());
  ElasticJob plain = pipeline_job("1f1b");
  plain.model.layers = 8;
  CHECK(first.ms ==
        doctest::Approx(plan_of(plain, site).ms).epsilon(0.35));  // its W is not part of what a stage waits for
}
