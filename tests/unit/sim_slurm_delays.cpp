// Slurm's part of the event loop, on cases solved by hand: when it starts jobs, what it takes time for, and what it
// preempts.
#include <doctest/doctest.h>

#include <map>

#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::sim_cases;

namespace {

// Job 1 grows from one GPU to two and to four, by an extension each time, between `from` and
// 60 s. `sees` runs before each decision.
Scripted grows_twice(World& world, double from, std::function<void(const sim::SimulatedView&)> sees) {
  const Plan two = replicas(world, {{"n1", 0}, {"n1", 1}});
  const Plan four = replicas(world, {{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}});
  Scripted policy([=](const sim::SimulatedView& view) -> std::vector<sim::Act> {
    sees(view);
    if (view.input.now < from || view.input.now > 60 || view.jobs[0]->redeploying) return {};
    if (view.input.jobs[0].extensions.empty()) return {{1, two, "", {}}};
    if (view.input.jobs[0].extensions.size() == 1) return {{1, four, "", {}}};
    return {};
  });
  policy.keeps_basic_ = true;
  policy.cooldown_ = 14;
  policy.method_ = sim::Method::adopt;
  world.options.redeploy.profile_seconds = 15;
  world.options.redeploy.measured[sim::Method::adopt] = {10, 1};
  return policy;
}

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE(
      "Slurm's part: a job starts a while after it could, trains a while after that, and ends after its last step") {
    World world(1, 4, {4});
    world.add(0, 100);
    world.add(50, 100);
    world.options.delays = {2, 0, 4, 0, 5, 3, {}};
    const auto run = non_elastic(world, "fifo");
    CHECK(run.jobs[0].start == 2);
    check_ends(run, {2 + 5 + 100 + 3, 110 + 4 + 5 + 100 + 3});
    CHECK(run.jobs[1].start == 114);
    CHECK(run.jobs[0].gpu_seconds == doctest::Approx(4 * 108));
    CHECK(run.jobs[0].lost_gpu_seconds == doctest::Approx(4 * 8));
  }

  TEST_CASE("backfill starts a short job behind one that does not fit, also where Slurm takes its time") {
    for (const double release : {0.0, 0.5}) {
      World world(1, 4, {2, 4, 1});
      world.add(0, 1000);
      world.add(10, 1000, 1);
      world.add(20, 50, 2);
      world.options.delays.queue_seconds = 1;
      world.options.delays.release_seconds = release;
      const auto run = non_elastic(world, "backfill");
      CHECK(run.jobs[2].start == 21);
      CHECK(run.jobs[1].start > 1000);
      CHECK(run.jobs[1].start <= 1001 + release);
    }
  }

  TEST_CASE("a job that is launched or ending is left alone, and profiled once it trains") {
    World world;
    world.add(0, 50);
    std::map<double, JobPhase> phases;
    Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
      for (const ElasticJob& job : view.input.jobs) phases[view.input.now] = job.phase;
      for (const auto* job : view.jobs)
        if (job->plan) CHECK(job->redeploying == (view.input.now < 5 || view.input.now > 55));
      return {};
    });
    policy.keeps_basic_ = true;
    policy.period_ = 4;
    world.options.redeploy.profile_seconds = 10;
    world.options.delays.launch_seconds = 5;
    world.options.delays.end_seconds = 4;
    const auto run = world.run(policy);
    CHECK(phases.at(4) == JobPhase::launching);
    CHECK(phases.at(8) == JobPhase::running);
    CHECK(phases.at(56) == JobPhase::ending);
    check_ends(run, {59});
  }

  TEST_CASE(
      "Slurm may take an extension for who waits before its job has changed over to it, and the growth ends there") {
    for (const bool preempts : {false, true}) {
      World world(1, 4, {1});
      world.add(0, 1000);
      world.add(20, 10);
      const Plan four = replicas(world, {{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}});
      std::vector<double> asked;
      Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
        asked.push_back(view.input.now);
        if (view.input.now == 15) return {{1, four, "", {}}};
        if (view.input.now == 20) {
          REQUIRE(!view.input.jobs.empty());
          CHECK((view.input.jobs[0].phase == JobPhase::running) == preempts);
          CHECK(view.input.jobs[0].extensions.empty() == preempts);
        }
        return {};
      });
      policy.keeps_basic_ = true;
      policy.cooldown_ = 7;
      policy.method_ = sim::Method::adopt;
      world.options.redeploy.profile_seconds = 15;
      world.options.redeploy.measured[sim::Method::adopt] = {10, 1};
      if (preempts) world.options.delays.preempt = sim::Preemption::youngest;
      const auto run = world.run(policy);
      CHECK(run.redeployments == (preempts ? 0 : 1));
      if (!preempts) continue;
      CHECK(run.jobs[1].start == 20);
      check_ends(run, {1000, 30});
      CHECK(run.jobs[0].most_gpus == 1);
      CHECK(std::find(asked.begin(), asked.end(), 27) != asked.end());  // after the cooldown
    }
  }

  TEST_CASE("a growth that ends there keeps what it would have given back, and nobody counts on it") {
    for (const bool preempts : {false, true}) {
      World world(1, 6, {1, 4});
      world.add(0, 1000);
      world.add(40, 10, 1);
      const Plan two = replicas(world, {{"n1", 0}, {"n1", 1}});
      const Plan five = replicas(world, {{"n1", 0}, {"n1", 2}, {"n1", 3}, {"n1", 4}, {"n1", 5}});
      bool seen = false, moved = false;
      Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
        if (view.input.now == 15) return {{1, two, "", {}}};
        if (!moved && view.input.now >= 30 && view.input.now < 40) {
          moved = true;
          return {{1, five, "", {view.input.jobs[0].extensions[0].job}}};
        }
        if (view.input.now == 40) {
          seen = true;
          CHECK(view.input.cluster.nodes[0].freeing == (preempts ? std::vector<int>{} : std::vector<int>{1}));
          REQUIRE(view.input.jobs[0].extensions.size() == (preempts ? 1 : 2));
          CHECK(view.input.jobs[0].extensions[0].gpus == std::vector<int>{1});
        }
        return {};
      });
      policy.keeps_basic_ = true;
      policy.method_ = sim::Method::adopt;
      world.options.redeploy.profile_seconds = 15;
      world.options.redeploy.measured[sim::Method::adopt] = {13, 2};
      if (preempts) world.options.delays.preempt = sim::Preemption::youngest;
      world.run(policy);
      CHECK(seen);
    }
  }

  TEST_CASE("an extension that its job trains on goes when Slurm says so, and the policy is asked for no other") {
    for (const auto order : {sim::Preemption::oldest, sim::Preemption::youngest}) {
      World world(1, 6, {1, 4});
      world.add(0, 1000);
      world.add(100, 10, 1);
      std::map<double, std::vector<std::pair<bool, std::vector<int>>>> waiting;  // left to Slurm; freeing
      Scripted policy = grows_twice(world, 17, [&](const sim::SimulatedView& view) {
        for (const WaitingJob& one : view.input.cluster.waiting)
          waiting[view.input.now].emplace_back(one.left_to_slurm, view.input.cluster.nodes[0].freeing);
      });
      world.options.delays.preempt = order;
      world.options.delays.queue_seconds = 2;
      const auto run = world.run(policy);
      // Two GPUs are idle and the job wants four. The extensions have GPU 1, and GPUs 2 and 3. The
      // second extension suffices.
      REQUIRE(waiting.contains(100));
      CHECK(waiting.at(100).front() == std::pair(true, std::vector<int>{}));
      REQUIRE(waiting.contains(102));
      CHECK(waiting.at(102).front() == std::pair(false, std::vector<int>{2, 3}));
      CHECK(run.jobs[1].start >= 113);
      CHECK(run.jobs[1].start <= 114);
      CHECK(run.redeployments == 3);
    }
  }

  TEST_CASE("Slurm looks at new jobs together, and not again for a while, unless a job ends") {
    World world(1, 4, {1});
    for (const double submit : {0.0, 0.5, 1.5, 3.0, 20.0}) world.add(submit, submit < 1 ? 1 : 100);
    world.options.delays.queue_seconds = 1;
    world.options.delays.batch_sched_seconds = 9;
    world.options.delays.release_seconds = 0.25;
    const auto run = non_elastic(world, "fifo");
    // Slurm would look at the third job together with the fourth, 9 s after the first two. But an
    // ended job makes Slurm look at once.
    CHECK(run.jobs[0].start == 1);
    CHECK(run.jobs[1].start == 1);
    CHECK(run.jobs[2].start == run.jobs[0].end + 0.25);
    CHECK(run.jobs[3].start == 10);
    CHECK(run.jobs[4].start == 21);
  }

  TEST_CASE("of extensions that would each do, the one that comes first in Slurm's order goes") {
    for (const auto order : {sim::Preemption::oldest, sim::Preemption::youngest}) {
      World world(1, 4, {1});
      world.add(0, 1000);
      world.add(100, 10);
      std::vector<int> freeing;
      Scripted policy = grows_twice(world, 15, [&](const sim::SimulatedView& view) {
        if (view.input.now == 100) freeing = view.input.cluster.nodes[0].freeing;
      });
      world.options.delays.preempt = order;
      world.run(policy);
      CHECK(freeing == (order == sim::Preemption::oldest ? std::vector<int>{1} : std::vector<int>{2, 3}));
    }
  }
}
