// Extensions that go from a job with much work left to one with little.
#include <doctest/doctest.h>

#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// No GPU is idle. Job 1 has three GPUs of an extension and a day of work, job 2 has ten minutes.
PlanningInput lopsided() {
  ElasticJob long_one = job(1, "n1", {0});
  extend(long_one, 50, "n1", {1, 2, 3});
  PlanningInput input = input_of({node("n1", 5)}, {long_one, job(2, "n1", {4})});
  for (ElasticJob& one : input.jobs) deepen(one, 60);
  input.jobs[0].total_steps = 86'400;
  input.jobs[1].total_steps = 600;
  input.extensions = {50};
  return input;
}

SchedulerOptions boldest() {
  SchedulerOptions options;
  options.lambda = 64;
  return options;
}

}  // namespace

TEST_SUITE("schedule") {
  TEST_CASE("a job with much work left gives extensions to a job that ends sooner") {
    const auto decisions = decide(lopsided(), boldest());
    REQUIRE(decisions.size() == 1);
    CHECK(decisions[0].job == 1);
    CHECK(decisions[0].kind == DecisionKind::shrink);
    CHECK(decisions[0].release == std::vector<JobId>{50});
    CHECK(decisions[0].plan.gpu_count() == 1);
    CHECK(decisions[0].reason ==
          "another job has less work left and gains more from GPUs of extensions: give back 3 GPUs, run on 1");
  }

  TEST_CASE("the GPUs of a trade go to the job it was made for") {
    PlanningInput input = lopsided();
    const auto scheduler = make_suika_scheduler(boldest());
    REQUIRE(scheduler->decide(input).size() == 1);
    input.now += 1;
    input.jobs[0].extensions.clear();
    input.jobs[0].plan = uniform_plan(1, 1, 60, 4, 4, {{"n1", 0}});
    input.extensions.clear();
    for (const int gpu : {1, 2, 3}) input.cluster.nodes[0].gpu_owner[static_cast<std::size_t>(gpu)] = 0;
    const auto decisions = scheduler->decide(input);
    REQUIRE(decisions.size() == 1);
    CHECK(decisions[0].job == 2);
    CHECK(decisions[0].kind == DecisionKind::grow);
  }

  TEST_CASE("the fifth job gets a trade, though four before it gain nothing from any") {
    ElasticJob long_one = job(1, "n1", {0});
    extend(long_one, 50, "n1", {1, 2, 3});
    std::vector<ElasticJob> jobs{long_one};
    for (const JobId id : {2U, 3U, 4U, 5U, 6U}) jobs.push_back(job(id, "n1", {static_cast<int>(id) + 2}));
    PlanningInput input = input_of({node("n1", 9)}, jobs);
    for (ElasticJob& one : input.jobs) deepen(one, 60);
    input.jobs[0].total_steps = 86'400;
    for (std::size_t i = 1; i < 5; ++i) {
      // Nothing divides one layer and one sample.
      input.jobs[i].total_steps = 100;
      input.jobs[i].model.layers = 1;
      input.jobs[i].model.global_batch = 1;
      input.jobs[i].parallel.micro_batches = 1;
      input.jobs[i].plan = uniform_plan(1, 1, 1, 1, 1, input.jobs[i].plan->ranks());
    }
    input.jobs[5].total_steps = 600;
    input.extensions = {50};
    const auto scheduler = make_suika_scheduler(boldest());
    scheduler->decide(input);
    input.now += 1;
    const auto decisions = scheduler->decide(input);
    REQUIRE(decisions.size() == 1);
    CHECK(decisions[0].job == 1);
    CHECK(decisions[0].kind == DecisionKind::shrink);
  }

  TEST_CASE("neither side of a trade trades again for a minute") {
    PlanningInput input = lopsided();
    const auto scheduler = make_suika_scheduler(boldest());
    REQUIRE(scheduler->decide(input).size() == 1);
    input.now += 59;
    CHECK(scheduler->decide(input).empty());
    input.now += 1;
    CHECK(scheduler->decide(input).size() == 1);
    // The first trade was in vain: the job did not grow. So the next one has to wait longer.
    input.now += 119;
    CHECK(scheduler->decide(input).empty());
    input.now += 1;
    CHECK(scheduler->decide(input).size() == 1);
  }

  TEST_CASE("no extension is traded") {
    PlanningInput input = lopsided();
    SchedulerOptions options = boldest();
    SUBCASE("by the paper's policy") { options.as_printed = true; }
    SUBCASE("when trades are switched off") { options.trade = 0; }
    SUBCASE("when a trade could be turned round at once") { options.trade = 0.9; }
    SUBCASE("from a job that is held") { input.jobs[0].held = true; }
    SUBCASE("when the other could use less than half of it") { input.jobs[1].max_gpus = 2; }
    SUBCASE("when the gain is not so many times as high") { options.trade = 1e6; }
    SUBCASE("between jobs with equal work left") { input.jobs[1].total_steps = 86'400 * 4; }
    SUBCASE("for a job that ends before its new plan runs") {
      options.start_seconds = 25;
      input.jobs[1].step = 580;
    }
    SUBCASE("for a job that is held") { input.jobs[1].held = true; }
    SUBCASE("from a job that has just changed") { input.last_change[1] = input.now - 1; }
    SUBCASE("from a job whose speed is not known") { input.jobs[0].step_seconds = 0; }
    SUBCASE("while a job waits") {
      WaitingJob waiting;
      waiting.id = 9;
      waiting.gpus = 64;
      waiting.nodes = 8;
      input.cluster.waiting = {waiting};
    }
    CHECK(decide(input, options).empty());
  }
}
