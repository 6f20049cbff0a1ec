// Acts that a policy must not do. The policy is told the reason.
#include <doctest/doctest.h>

#include "planner/sim/policies/policies.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::sim_cases;

namespace {

// The refusal of `acts` at 60 s. Two jobs of one GPU each run on n1/0 and n1/1.
std::string refusal(const std::function<std::vector<sim::Act>(const World&)>& acts, bool keeps_basic = false,
                    sim::Method method = sim::Method::checkpoint) {
  World world;
  world.add(0, 1000);
  world.add(0, 1000);
  Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
    return view.input.now == 60 ? acts(world) : std::vector<sim::Act>{};
  });
  policy.period_ = 60;
  policy.keeps_basic_ = keeps_basic;
  policy.method_ = method;
  return error_of([&] { world.run(policy); });
}

Plan on(const World& world, const std::vector<GpuId>& gpus) {
  sim::JobKind kind = world.kinds[0];
  kind.dp = static_cast<int>(gpus.size());
  return sim::basic_plan(kind, gpus);
}

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("a policy cannot decide for jobs that are not there, or twice") {
    CHECK(refusal([](const World& w) {
            return std::vector<sim::Act>{{7, on(w, {{"n1", 2}}), "", {}}};
          }) == "scripted: what it decided for job 7 cannot be: there is no such job");
    CHECK(refusal([](const World& w) {
            return std::vector<sim::Act>{{1, on(w, {{"n1", 2}}), "", {}}, {1, on(w, {{"n1", 3}}), "", {}}};
          }) == "scripted: what it decided for job 1 cannot be: it is named twice");
  }

  TEST_CASE("a policy cannot give GPUs away that others have, or that do not exist") {
    CHECK(refusal([](const World& w) {
            return std::vector<sim::Act>{{1, on(w, {{"n1", 0}, {"n1", 1}}), "", {}}};
          }) == "scripted: what it decided for job 1 cannot be: n1/1 belongs to job 2");
    CHECK(refusal([](const World& w) {
            Plan plan = on(w, {{"n1", 0}});
            plan.stages[0].replicas[0].gpus[0] = {"n9", 0};
            return std::vector<sim::Act>{{1, plan, "", {}}};
          }).starts_with("scripted: job 1 (small) cannot run on"));
  }

  TEST_CASE("GPUs change hands within one call where the pause begins at once") {
    const auto swap = [](const World& w) {
      return std::vector<sim::Act>{{1, on(w, {{"n1", 1}}), "", {}}, {2, on(w, {{"n1", 0}}), "", {}}};
    };
    CHECK(refusal(swap) == "");
    CHECK(refusal(swap, false, sim::Method::device) ==
          "scripted: what it decided for job 1 cannot be: n1/1 belongs to job 2");
  }

  TEST_CASE("a job that is being redeployed is left alone") {
    World world;
    world.add(0, 1000);
    Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
      if (view.jobs.front()->plan->ranks()[0].index == 3) return {};
      return {{1, on(world, {{"n1", 3}}), "", {}}};
    });
    policy.period_ = 10;
    CHECK(error_of([&] { world.run(policy); }) ==
          "scripted: what it decided for job 1 cannot be: it is being redeployed");
  }

  TEST_CASE("only what it holds can be released") {
    CHECK(refusal(
              [](const World& w) {
                return std::vector<sim::Act>{{1, on(w, {{"n1", 0}}), "", {99}}};
              },
              true) ==
          "scripted: what it decided for job 1 cannot be: it releases extension 99, which it does not hold");
    CHECK(refusal(
              [](const World& w) {
                return std::vector<sim::Act>{{1, on(w, {{"n1", 0}}), "", {99}}};
              },
              true, sim::Method::device) ==
          "scripted: what it decided for job 1 cannot be: it releases extension 99, which it does not hold");
  }

  TEST_CASE("a plan must be valid and fit into memory") {
    CHECK(refusal([](const World& w) {
            Plan plan = on(w, {{"n1", 0}});
            plan.stages[0].layers = 3;
            return std::vector<sim::Act>{{1, plan, "", {}}};
          }).starts_with("scripted: what it decided for job 1 cannot be: "));
    World world;
    world.kinds[0].coefficients.param_optim_bytes = 1e12;
    world.add(0, 10);
    CHECK(error_of([&] { world.run(*sim::make_policy("fifo")); }).find("GB") != std::string::npos);
  }

  TEST_CASE("jobs that nothing starts are an error, not an endless wait") {
    World world;
    world.add(0, 10);
    Scripted policy([](const sim::SimulatedView&) { return std::vector<sim::Act>{}; });
    policy.owns_queue_ = true;
    for (const double period : {0.0, 60.0}) {
      policy.period_ = period;
      CHECK(error_of([&] { world.run(policy); }) == "scripted: 1 job left waiting for ever: nothing starts what waits");
    }
    // A policy may decide late.
    Scripted slow([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
      if (view.input.now < 6000 || view.jobs.front()->plan) return {};
      return {{1, sim::basic_plan(world.kinds[0], {{"n1", 0}}), "", {}}};
    });
    slow.owns_queue_ = true;
    slow.period_ = 60;
    CHECK(world.run(slow).jobs[0].start == 6000);
  }

  TEST_CASE("a waiting job cannot be stopped") {
    World world(1, 1);
    world.add(0, 100);
    world.add(0, 100);
    Scripted policy([](const sim::SimulatedView&) { return std::vector<sim::Act>{{2, std::nullopt, "", {}}}; });
    CHECK(error_of([&] { world.run(policy); }) == "scripted: what it decided for job 2 cannot be: it does not run");
  }

  TEST_CASE("an unknown policy is an error that lists the known ones") {
    const std::string error = error_of([] { sim::make_policy("lifo"); });
    CHECK(error.starts_with("\"lifo\": no such policy; use one of fifo, sjf, backfill, slurm, suika, suika-dp"));
  }
}
