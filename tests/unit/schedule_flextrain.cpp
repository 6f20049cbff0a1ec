// FlexTrain's scaling controller: who grows, to what, when it pays, and who gives GPUs back.
#include <doctest/doctest.h>

#include <cmath>

#include "planner/core/schedule/flextrain/flextrain.hpp"
#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

SchedulerOptions options() {
  SchedulerOptions options;
  options.redeploy_seconds = 60;
  return options;
}

std::vector<Decision> scale(const PlanningInput& input, const FlextrainOptions& flextrain = {}) {
  return make_flextrain_scheduler(options(), flextrain)->decide(input);
}

// Anything but the number of stages stays.
bool pipeline_alone(const Plan& before, const Plan& after) {
  if (after.micro_batches != before.micro_batches) return false;
  for (const Stage& stage : after.stages)
    if (stage.tp != before.stages[0].tp || stage.replicas.size() != before.stages[0].replicas.size()) return false;
  return true;
}

// One job of 32 GPUs every `seconds` for the last eight hours.
Arrivals every(double seconds, double now) {
  Arrivals arrivals(now - 24 * 3600);
  for (double t = now - 24 * 3600 + seconds / 2; t <= now; t += seconds) arrivals.add({t, 32});
  return arrivals;
}

}  // namespace

TEST_SUITE("flextrain") {
  TEST_CASE("equation 16 is equation 15 against the threshold") {
    CHECK(idle_probability(0, 2, 100) == 1);
    CHECK(idle_probability(0.001, 2, 100) == doctest::Approx(std::exp(-0.2)));
    CHECK(likely_to_pay(0.001, 2, 100, 0.6));
    CHECK_FALSE(likely_to_pay(0.001, 2, 300, 0.6));  // exp(-0.6) = 0.549
    CHECK_FALSE(likely_to_pay(0, 1, 0, 0.6));        // no gain pays
    CHECK_FALSE(likely_to_pay(0.001, 0.5, 1, 0.6));
    for (const double rate : {1e-5, 1e-4, 1e-3, 1e-2})
      for (const double speedup : {1.05, 1.5, 2.0, 4.0})
        CHECK(likely_to_pay(rate, speedup, 50, 0.6) == (idle_probability(rate, speedup, 50) > 0.6));
  }

  TEST_CASE("the rate counts jobs of enough GPUs in the window, and only the time that is known") {
    Arrivals arrivals(1000);
    CHECK(arrivals.rate(5000, 3600, 1) == 0);
    arrivals.add({2000, 8});
    arrivals.add({3000, 32});
    arrivals.add({4000, 64});
    CHECK(arrivals.rate(5000, 8 * 3600, 32) == doctest::Approx(2.0 / 4000));
    CHECK(arrivals.rate(5000, 8 * 3600, 1) == doctest::Approx(3.0 / 4000));
    CHECK(arrivals.rate(5000, 1500, 32) == doctest::Approx(1.0 / 1500));
    CHECK(arrivals.rate(1000, 3600, 1) == 0);
    arrivals.add({4000 + Arrivals::kMostSeconds, 1});
    CHECK(arrivals.recent().size() == 2);  // of 4000 and of a day later
    for (std::size_t i = 0; i < Arrivals::kMost + 10; ++i) arrivals.add({1e6, 1});
    CHECK(arrivals.recent().size() == Arrivals::kMost);
    CHECK(arrivals.since() == 1e6);  // what was before it is not known any more
  }

  TEST_CASE("a job grows by stages alone, to four times its own GPUs at most") {
    const auto before = job(10, "n1", {0, 1}, 64);
    const auto input = input_of({node("n1", 4), node("n2", 8), node("n3", 8)}, {before});
    const auto decisions = scale(input);
    REQUIRE(decisions.size() == 1);
    const Decision& d = decisions[0];
    CHECK(d.kind == DecisionKind::grow);
    CHECK(d.plan.gpu_count() == 8);
    CHECK(pipeline_alone(*before.plan, d.plan));
    CHECK(validate(d.plan, 8).empty());
    CHECK(d.plan.ranks().front() == GpuId{"n1", 0});
    CHECK(d.predicted_step_seconds < 1);
    int asked = 0;
    for (const ExtensionRequest& request : d.acquire) asked += request.gpus;
    CHECK(asked == 6);
    FlextrainOptions twice;
    twice.most_times = 2;
    CHECK(scale(input, twice).at(0).plan.gpu_count() == 4);
    auto limited = input;
    limited.jobs[0].max_gpus = 3;
    CHECK(scale(limited).at(0).plan.gpu_count() == 3);
  }

  TEST_CASE("of all sizes the fastest is taken: a stage that would get no layer is none") {
    auto flat = job(10, "n1", {0, 1}, 64);
    flat.model.layers = 3;
    flat.plan = uniform_plan(2, 1, 3, 4, 4, flat.plan->ranks());
    CHECK(scale(input_of({node("n1", 8)}, {flat})).at(0).plan.stages.size() == 3);
  }

  TEST_CASE("replicas are added where accuracy may be relaxed") {
    auto shallow = job(10, "n1", {0}, 64);
    shallow.model.layers = 1;
    shallow.model.global_batch = 16;
    shallow.parallel = {};
    shallow.plan = uniform_plan(1, 1, 1, 16, 4, shallow.plan->ranks());
    const auto input = input_of({node("n1", 8)}, {shallow});
    CHECK(scale(input).empty());  // it has one layer
    FlextrainOptions data;
    data.elasticity = Elasticity::pipeline_and_data;
    const auto d = scale(input, data).at(0);
    CHECK(d.plan.stages.size() == 1);
    CHECK(d.plan.gpu_count() == 4);
  }

  TEST_CASE("where jobs arrive often, nothing grows that costs a restart") {
    auto input = input_of({node("n1", 8)}, {job(10, "n1", {0, 1}, 64)});
    const Arrivals seldom = every(3600, input.now + 1e6), often = every(60, input.now + 1e6);
    input.now += 1e6;
    input.arrivals = &seldom;
    CHECK(scale(input).size() == 1);
    input.arrivals = &often;
    const auto scheduler = make_flextrain_scheduler(options(), {});
    CHECK(scheduler->decide(input).empty());
    REQUIRE(scheduler->weighed().size() == 1);
    CHECK(scheduler->weighed()[0].verdict.find("may not stay idle") != std::string::npos);
    // A pause that was measured replaces what is assumed.
    input.redeploy_seconds[10] = 0.5;
    CHECK(scheduler->decide(input).size() == 1);
    // Only jobs of enough GPUs count.
    input.redeploy_seconds.clear();
    FlextrainOptions large;
    large.least_gpus = 64;
    CHECK(scale(input, large).size() == 1);
  }

  TEST_CASE("the job with the fewest GPUs grows first, and nobody while a job waits") {
    auto input = input_of({node("n1", 8), node("n2", 4)}, {job(10, "n1", {0, 1, 2, 3}, 64), job(11, "n2", {0, 1}, 64)});
    const auto decisions = scale(input);
    REQUIRE(decisions.size() == 1);  // it takes all that is idle
    CHECK(decisions[0].job == 11);
    CHECK(decisions[0].plan.gpu_count() == 8);
    input.cluster.waiting.push_back({20, 64, 8, {}, {}, 1, false});
    CHECK(scale(input).empty());
  }

  TEST_CASE("held jobs and jobs that have just changed do not grow") {
    auto input = input_of({node("n1", 8)}, {job(10, "n1", {0, 1}, 64)});
    input.last_change[10] = input.now - 1;
    CHECK(scale(input).empty());
    input.last_change.clear();
    input.jobs[0].held = true;
    CHECK(scale(input).empty());
  }

  TEST_CASE("for a waiting job, the job that gained most gives GPUs back and runs on the rest") {
    auto gained = job(10, "n1", {0}, 64), slow = job(11, "n2", {0, 1, 2}, 64);
    deepen(gained, 16);
    extend(gained, 100, "n3", {0, 1, 2, 3});
    deepen(gained, 16);
    extend(slow, 110, "n4", {0, 1, 2, 3});
    auto input = input_of({node("n1", 1), node("n2", 3), node("n3", 4), node("n4", 4)}, {gained, slow});
    input.cluster.waiting.push_back({20, 4, 1, {}, {}, 1, false});
    const auto decisions = scale(input);
    REQUIRE(decisions.size() == 1);
    CHECK(decisions[0].job == 10);
    CHECK(decisions[0].kind == DecisionKind::shrink);
    CHECK(decisions[0].release == std::vector<JobId>{100});
    CHECK(decisions[0].plan.gpu_count() == 1);
    // More than all extensions hold: nobody is disturbed.
    input.cluster.waiting[0].gpus = 64;
    input.cluster.waiting[0].nodes = 16;
    CHECK(scale(input).empty());
  }

  TEST_CASE("with stages alone the micro-batches stay, though more of them would be faster") {
    auto one = job(10, "n1", {0}, 64);
    one.parallel.micro_batches = 0;
    one.model.global_batch = 16;
    one.plan = uniform_plan(1, 1, 8, 16, 2, one.plan->ranks());
    const auto input = input_of({node("n1", 8)}, {one});
    FlextrainOptions both;
    both.elasticity = Elasticity::pipeline_and_data;
    REQUIRE(scale(input, both).size() == 1);
    CHECK(scale(input, both)[0].plan.micro_batches != 2);
    const auto decisions = scale(input);
    REQUIRE(decisions.size() == 1);
    CHECK(decisions[0].plan.stages.size() > 1);
    CHECK(pipeline_alone(*one.plan, decisions[0].plan));
  }

  TEST_CASE("idle GPUs that suffice for a waiting job spare the extensions") {
    auto one = job(10, "n1", {0}, 64);
    extend(one, 100, "n2", {0, 1, 2, 3});
    auto input = input_of({node("n1", 1), node("n2", 4), node("n3", 4)}, {one});
    input.cluster.waiting.push_back({20, 4, 1, {}, {}, 1, false});
    CHECK(scale(input).empty());
  }

  TEST_CASE("a job that keeps some extensions runs on the fastest plan of what is left") {
    auto one = job(10, "n1", {0, 1}, 64);
    extend(one, 100, "n2", {0, 1});
    extend(one, 101, "n3", {0, 1});
    auto input = input_of({node("n1", 2), node("n2", 2), node("n3", 2)}, {one});
    input.cluster.waiting.push_back({20, 2, 1, {}, {}, 1, false});
    const auto decisions = scale(input);
    REQUIRE(decisions.size() == 1);
    CHECK(decisions[0].release.size() == 1);
    CHECK(decisions[0].plan.gpu_count() == 4);
    CHECK(pipeline_alone(*one.plan, decisions[0].plan));
  }

  TEST_CASE("decisions do not depend on the scheduler's past") {
    const auto input = input_of({node("n1", 8), node("n2", 8)}, {job(10, "n1", {0, 1}), job(11, "n2", {0})});
    const auto scheduler = make_flextrain_scheduler(options(), {});
    const auto first = scheduler->decide(input), second = scheduler->decide(input), fresh = scale(input);
    REQUIRE(first.size() == second.size());
    REQUIRE(first.size() == fresh.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      CHECK(first[i].plan == second[i].plan);
      CHECK(first[i].plan == fresh[i].plan);
    }
  }
}
