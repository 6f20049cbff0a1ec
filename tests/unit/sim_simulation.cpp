// The event loop, on cases solved by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "planner/core/model/evaluate_plan.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::sim_cases;

namespace {

double step(const World& world, const Plan& plan) {
  return evaluate_plan(world.site->hardware, world.site->topology, world.kinds[0].coefficients, plan).exact_ms / 1000;
}

// The end of the step under way at `time`. The job has run on its basic plan since 0.
double step_end(const World& world, double time) {
  const double step = world.kinds[0].step_seconds;
  return std::ceil(time / step) * step;
}

Scripted grows_at_30(const World& world) {
  return Scripted([&world](const sim::SimulatedView& view) -> std::vector<sim::Act> {
    if (view.input.now != 30) return {};
    return {{1, replicas(world, {{"n1", 0}, {"n1", 1}}), "", {}}};
  });
}

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("a job that is alone takes what its iterations take") {
    World world;
    world.add(10, 100);
    const auto run = non_elastic(world, "fifo");
    check_ends(run, {110});
    CHECK(run.jobs[0].start == 10);
    CHECK(run.jobs[0].gpu_seconds == doctest::Approx(100));
    CHECK(run.jobs[0].lost_gpu_seconds == 0);
    CHECK(run.jobs[0].redeployments == 0);
    CHECK(run.levels.size() == 2);
    CHECK(run.levels[0].gpus == 1);
    CHECK(run.levels[1].gpus == 0);
  }

  TEST_CASE("fifo: a head that does not fit blocks those behind it") {
    World world(1, 4, {1, 4});
    world.add(0, 100);    // one GPU
    world.add(1, 50, 1);  // all four GPUs: waits until 100
    world.add(2, 10);     // would fit at once
    check_ends(non_elastic(world, "fifo"), {100, 150, 160});
  }

  TEST_CASE("sjf: the least GPU time goes first, and blocks as well") {
    World world(1, 4, {4, 1});
    world.add(0, 100);
    world.add(1, 50);     // 200 GPU-seconds
    world.add(2, 30);     // 120
    world.add(3, 40, 1);  // 40
    check_ends(non_elastic(world, "sjf"), {100, 220, 170, 140});
  }

  TEST_CASE("jobs that end at one time make room together") {
    World world(1, 4, {2, 4});
    world.add(0, 100);
    world.add(0, 100);
    world.add(1, 10, 1);
    check_ends(non_elastic(world, "fifo"), {100, 100, 110});
  }

  TEST_CASE("checkpoint: the pause begins at the step's end, and the new plan after it") {
    World world;
    world.add(0, 100);
    const Plan two = replicas(world, {{"n1", 0}, {"n1", 1}});
    Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
      const auto* job = view.jobs.front();
      if (view.input.now < 60 || job->plan->gpu_count() == 2 || job->redeploying) return {};
      return {{1, two, "", {}}};
    });
    policy.period_ = 60;
    world.options.redeploy.measured[sim::Method::checkpoint] = {0, 20};
    const auto run = world.run(policy);
    const double pause = step_end(world, 60);
    CHECK(pause > 60);
    check_ends(run, {pause + 20 + (100 - pause) * step(world, two) / world.kinds[0].step_seconds});
    CHECK(run.jobs[0].lost_gpu_seconds == doctest::Approx(40));
    CHECK(run.jobs[0].gpu_seconds == doctest::Approx(60 + 2 * (run.jobs[0].end - 60)));
    CHECK(run.jobs[0].most_gpus == 2);
    CHECK(run.redeployments == 1);
  }

  TEST_CASE("overlapped: the old plan trains while the new processes start") {
    World world;
    world.add(0, 100);
    const Plan two = replicas(world, {{"n1", 0}, {"n1", 1}});
    Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
      if (view.input.now < 30 || view.jobs.front()->plan->gpu_count() == 2) return {};
      return {{1, two, "", {}}};
    });
    policy.keeps_basic_ = true;  // decides when the profile is ready, at 30 s
    policy.method_ = sim::Method::device;
    world.options.redeploy.measured[sim::Method::device] = {21, 5, 2};
    const auto run = world.run(policy);
    const double pause = step_end(world, 55);
    CHECK(pause > 55);
    check_ends(run, {pause + 5 + (100 - pause) * step(world, two) / world.kinds[0].step_seconds});
    CHECK(run.jobs[0].lost_gpu_seconds == doctest::Approx(10));
  }

  TEST_CASE("an extension is granted after a while, until when the old plan trains") {
    World world;
    world.add(0, 100);
    const Plan two = replicas(world, {{"n1", 0}, {"n1", 1}});
    Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
      if (view.input.now != 30) return {};
      return {{1, two, "", {}}};
    });
    policy.keeps_basic_ = true;
    policy.method_ = sim::Method::adopt;
    world.options.redeploy.measured[sim::Method::adopt] = {20, 5};
    world.options.delays.acquire_seconds = 10;
    const double pause = step_end(world, 60);
    check_ends(world.run(policy), {pause + 5 + (100 - pause) * step(world, two) / world.kinds[0].step_seconds});
  }

  TEST_CASE("a job that ends while its successor starts just ends") {
    World world;
    world.add(0, 40);
    Scripted policy = grows_at_30(world);
    policy.keeps_basic_ = true;
    policy.method_ = sim::Method::device;
    world.options.redeploy.measured[sim::Method::device] = {25, 5};
    const auto run = world.run(policy);
    check_ends(run, {40});
    CHECK(run.levels.back().gpus == 0);
  }

  TEST_CASE("stopped and resumed, a job goes on from where it was") {
    World world;
    world.add(0, 100);
    Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
      const auto* job = view.jobs.front();
      if (view.input.now == 60) return {{1, replicas(world, {{"n1", 2}}), "", {}}};
      if (view.input.now == 120) return {{1, std::nullopt, "", {}}};
      if (view.input.now == 240) {
        CHECK(job->iterations_left * world.kinds[0].step_seconds == doctest::Approx(40));
        return {{1, replicas(world, {{"n1", 3}}), "", {}}};
      }
      return {};
    });
    policy.period_ = 60;
    policy.owns_queue_ = true;
    const double resume = sim::resume_seconds(world.options.redeploy, world.kinds[0].coefficients, 4);
    check_ends(world.run(policy), {240 + resume + 40});
  }

  TEST_CASE("extensions go when the redeployment ends, and whoever waits starts then") {
    World world(1, 4, {1, 4});
    world.add(0, 1000);
    world.add(100, 10, 1);
    world.jobs[1].kind = 1;
    const Plan three = replicas(world, {{"n1", 0}, {"n1", 1}, {"n1", 2}});
    std::vector<std::size_t> waiting;
    Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
      if (view.input.now == 30) return {{1, three, "", {}}};
      if (view.input.now != 100) return {};
      waiting.push_back(view.input.cluster.waiting.size());
      REQUIRE(view.input.jobs.size() == 1);
      const ElasticJob& job = view.input.jobs[0];
      REQUIRE(job.extensions.size() == 1);
      CHECK(job.extensions[0].gpus == std::vector<int>{1, 2});
      CHECK(view.input.extensions == std::vector<JobId>{job.extensions[0].job});
      return {{1, replicas(world, {{"n1", 0}}), "", {job.extensions[0].job}}};
    });
    policy.keeps_basic_ = true;
    policy.method_ = sim::Method::adopt;
    world.options.redeploy.measured[sim::Method::adopt] = {20, 1};
    const auto run = world.run(policy);
    CHECK(waiting == std::vector<std::size_t>{1});
    // The job also needs the anchor's GPU, so it waits for the first job's end.
    CHECK(run.jobs[1].start == doctest::Approx(run.jobs[0].end));
    CHECK(run.jobs[0].redeployments == 2);
  }

  TEST_CASE("coefficients are known once a job has been profiled") {
    World world;
    world.add(0, 100);
    std::vector<std::pair<double, bool>> seen;
    Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
      if (!view.input.jobs.empty())
        seen.emplace_back(view.input.now, view.input.coefficients.contains(1) && view.input.jobs[0].step_seconds > 0);
      return {};
    });
    policy.keeps_basic_ = true;
    world.options.redeploy.profile_seconds = 45;
    world.run(policy);
    CHECK(seen == std::vector<std::pair<double, bool>>{{0, false}, {45, true}});
  }

  TEST_CASE("until it is settled, a profiled job has a step's time and no coefficients") {
    World world;
    world.add(0, 100);
    std::vector<std::tuple<double, bool, bool>> seen;
    Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
      if (!view.input.jobs.empty())
        seen.emplace_back(view.input.now, view.input.jobs[0].step_seconds > 0, view.input.coefficients.contains(1));
      return {};
    });
    policy.keeps_basic_ = true;
    const double step = world.kinds[0].step_seconds;
    world.options.redeploy.profile_seconds = 5;
    world.options.redeploy.profile_steps = 2;
    world.options.redeploy.settle_steps = 8;
    world.run(policy);
    const double told = 5 + 2 * step;
    CHECK(seen == std::vector<std::tuple<double, bool, bool>>{
                      {0, false, false}, {told, true, false}, {told + 8 * step, true, true}});
  }

  TEST_CASE("a job that ends while it grows is not brought back by who takes the GPUs it was to get") {
    World world(1, 4, {1});
    world.add(0, 20);
    world.add(24, 10);
    const Plan four = replicas(world, {{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}});
    Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
      if (view.input.now == 15) return {{1, four, "", {}}};
      if (view.input.now == 24) {
        CHECK(view.jobs[0]->redeploying);
        CHECK(view.input.jobs[0].phase == JobPhase::ending);
      }
      return {};
    });
    policy.keeps_basic_ = true;
    policy.method_ = sim::Method::adopt;
    world.options.redeploy.profile_seconds = 15;
    world.options.redeploy.measured[sim::Method::adopt] = {13, 2};
    world.options.delays.end_seconds = 10;
    world.options.delays.preempt = sim::Preemption::youngest;
    const auto run = world.run(policy);
    check_ends(run, {30, 30 + 10 + 10});
  }

  TEST_CASE("a redeployment that is under way at the last step comes to nothing") {
    World world;
    world.add(0, 40);
    Scripted policy = grows_at_30(world);
    policy.keeps_basic_ = true;
    policy.method_ = sim::Method::device;
    world.options.redeploy.measured[sim::Method::device] = {12, 5};
    world.options.delays.end_seconds = 30;
    const auto run = world.run(policy);
    check_ends(run, {70});
    CHECK(run.levels.back().gpus == 0);
  }

  TEST_CASE("a change of plans begins the wait for coefficients anew") {
    World world;
    world.add(0, 200);
    std::map<double, bool> known;
    Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
      if (view.input.jobs.empty()) return {};
      known[view.input.now] = view.input.coefficients.contains(1);
      if (view.input.now != 5) return {};
      return {{1, replicas(world, {{"n1", 0}, {"n1", 1}}), "", {}}};
    });
    policy.keeps_basic_ = true;
    policy.method_ = sim::Method::adopt;
    world.options.redeploy.profile_seconds = 5;
    world.options.redeploy.settle_steps = 100;  // more steps than there are before the change
    world.options.redeploy.measured[sim::Method::adopt] = {10, 2};
    world.run(policy);
    const double changed = step_end(world, 15) + 2;
    const double settled = changed + 100 * step(world, replicas(world, {{"n1", 0}, {"n1", 1}}));
    REQUIRE(known.size() == 4);
    auto at = known.begin();
    for (const double time : {0.0, 5.0, changed, settled}) {
      CHECK(at->first == doctest::Approx(time));
      CHECK((at++)->second == (time == settled));
    }
  }

  TEST_CASE("a policy is asked once more after the cooldown") {
    World world;
    world.add(0, 100);
    std::vector<double> times;
    Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
      times.push_back(view.input.now);
      if (view.input.now != 30) return {};
      return {{1, replicas(world, {{"n1", 0}, {"n1", 1}}), "", {}}};
    });
    policy.keeps_basic_ = true;
    policy.method_ = sim::Method::device;
    policy.cooldown_ = 10;
    world.options.redeploy.measured[sim::Method::device] = {5, 5};
    world.run(policy);
    const double changed = step_end(world, 35) + 5;
    // The policy is not asked when no job is left.
    CHECK(times == std::vector<double>{0, 30, changed, changed + 10});
  }

  TEST_CASE("an injected error changes what policies know, the same way each time, and not the truth") {
    World world;
    world.add(0, 100);
    world.options.prediction_error = 0.2;
    std::vector<JobCoefficients> known;
    Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
      if (!view.jobs.empty()) known.push_back(*view.jobs.front()->coefficients);
      return {};
    });
    check_ends(world.run(policy), {100});
    world.run(policy);
    REQUIRE(known.size() % 2 == 0);
    const JobCoefficients& truth = world.kinds[0].coefficients;
    CHECK(known.front().gpu[0].comp != truth.gpu[0].comp);
    CHECK(known.front().param_bytes == truth.param_bytes);
    CHECK(known.front() == known.back());
    world.options.seed = 2;
    world.run(policy);
    CHECK(!(known.front() == known.back()));
  }
}
