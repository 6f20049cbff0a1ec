// Arena's scheduler over counts of GPUs.
#include <doctest/doctest.h>

#include "planner/sim/policies/arena_scheduler.hpp"
#include "planner/sim/policies/policies.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::sim;

namespace {

using Speeds = std::vector<std::vector<double>>;

// One type: 10, 18, 30, 40 samples a second on 1, 2, 4, 8 GPUs.
const Speeds kOne{{10, 18, 30, 40}};
// Two types; the second is half as fast.
const Speeds kTwo{{10, 18, 30, 40}, {5, 9, 15, 20}};

ArenaJob job(JobId id, const Speeds& speeds, int asked, int pool = -1, int gpus = 0, double waited = 0) {
  ArenaJob one;
  one.id = id;
  one.throughput = &speeds;
  one.asked_gpus = asked;
  one.pool = pool;
  one.gpus = gpus;
  one.waited = waited;
  return one;
}

std::vector<int> gpus_of(const std::vector<ArenaJob>& jobs) {
  std::vector<int> gpus;
  for (const ArenaJob& one : jobs) gpus.push_back(one.gpus);
  return gpus;
}

}  // namespace

TEST_SUITE("arena") {
  TEST_CASE("a job starts at once where there is room, and grows where GPUs stay idle") {
    ArenaScheduler scheduler({});
    std::vector<ArenaJob> jobs{job(1, kOne, 2)};
    scheduler.round(jobs, {2});
    CHECK(gpus_of(jobs) == std::vector<int>{2});
    jobs = {job(1, kOne, 2)};
    ArenaScheduler(ArenaOptions{}).round(jobs, {16});
    CHECK(gpus_of(jobs) == std::vector<int>{8});  // the most with a speed
  }

  TEST_CASE("the job that loses least is halved for a new one") {
    const Speeds flat{{10, 18, 30, 31}};
    ArenaOptions options;
    options.upgrades = 0;
    ArenaScheduler scheduler(options);
    std::vector<ArenaJob> jobs{job(1, kOne, 8, 0, 8), job(2, flat, 8, 0, 8), job(3, kOne, 4)};
    scheduler.round(jobs, {16});
    CHECK(gpus_of(jobs) == std::vector<int>{8, 4, 4});
  }

  TEST_CASE("a job is halved to a quarter of what it asks for and no further") {
    ArenaOptions options;
    options.upgrades = 0;
    const Speeds only4{{0, 0, 30}};  // a job that runs on 4 GPUs alone
    std::vector<ArenaJob> jobs{job(1, kOne, 8, 0, 2), job(2, only4, 4)};
    ArenaScheduler(options).round(jobs, {5});
    CHECK(gpus_of(jobs) == std::vector<int>{2, 0});
  }

  TEST_CASE("a running job moves to another type to make room, and stays where it cannot run there") {
    ArenaOptions options;
    options.upgrades = 0;
    const Speeds first_only{{10, 18, 30, 40}, {0, 0, 0, 0}};
    std::vector<ArenaJob> jobs{job(1, kTwo, 4, 0, 4), job(2, first_only, 4)};
    ArenaScheduler(options).round(jobs, {4, 4});
    CHECK(jobs[0].pool == 1);
    CHECK(jobs[1].pool == 0);
    CHECK(gpus_of(jobs) == std::vector<int>{4, 4});
    jobs = {job(1, first_only, 1, 0, 1), job(2, first_only, 4)};
    ArenaScheduler(options).round(jobs, {4, 4});
    CHECK(jobs[0].gpus == 1);
  }

  TEST_CASE("a job that is being redeployed stays as it is") {
    std::vector<ArenaJob> jobs{job(1, kOne, 4, 0, 4), job(2, kOne, 4)};
    jobs[0].fixed = true;
    ArenaOptions options;
    options.upgrades = 0;
    ArenaScheduler(options).round(jobs, {4});
    CHECK(gpus_of(jobs) == std::vector<int>{4, 0});
  }

  TEST_CASE("a job passes one that does not fit, and is stopped when that one can have its GPUs") {
    ArenaOptions options;
    options.upgrades = 0;
    const Speeds only8{{0, 0, 0, 40}}, only1{{10}};
    ArenaScheduler scheduler(options);
    std::vector<ArenaJob> jobs{job(1, only8, 8, 0, 8), job(2, only8, 8), job(3, only1, 1)};
    scheduler.round(jobs, {9});
    CHECK(gpus_of(jobs) == std::vector<int>{8, 0, 1});
    CHECK(scheduler.is_opportunistic(3));
    // Job 1 has ended, and a node has failed: job 2 needs the GPU of job 3.
    jobs = {job(2, only8, 8), job(3, only1, 1, 0, 1)};
    scheduler.round(jobs, {8});
    CHECK(gpus_of(jobs) == std::vector<int>{8, 0});
    CHECK_FALSE(scheduler.is_opportunistic(3));
  }

  TEST_CASE("a job that passed another is stopped for it as a whole, and never halved to free its GPUs once more") {
    ArenaOptions options;
    options.upgrades = 0;
    const Speeds only4{{0, 0, 30}}, only8{{0, 0, 0, 40}}, steep{{1, 2, 20, 40}}, flat{{10, 11, 12}};
    ArenaScheduler scheduler(options);
    std::vector<ArenaJob> jobs{job(1, steep, 8, 0, 8), job(2, only4, 4, 0, 4), job(3, only8, 8), job(4, flat, 4)};
    jobs[0].fixed = true;
    scheduler.round(jobs, {16});
    REQUIRE(gpus_of(jobs) == std::vector<int>{8, 4, 0, 4});
    REQUIRE(scheduler.is_opportunistic(4));
    // Job 2 has ended and two of its GPUs are gone. Job 3 gets its 8 from job 1, which is halved, and job 4, which is
    // stopped. Halving job 4 would lose less.
    jobs = {job(1, steep, 8, 0, 8), job(3, only8, 8), job(4, flat, 4, 0, 4)};
    scheduler.round(jobs, {14});
    CHECK(gpus_of(jobs) == std::vector<int>{4, 8, 0});
  }

  TEST_CASE("who has waited for long goes up to the first queue, where nobody passes") {
    ArenaOptions options;
    options.upgrades = 0;
    const Speeds only8{{0, 0, 0, 40}}, only1{{10}};
    for (const double waited : {0.0, 3600.0}) {
      CAPTURE(waited);
      // Job 2 needs more than is free. Job 3 comes from the same queue.
      std::vector<ArenaJob> jobs{job(1, only8, 8, 0, 8), job(2, only8, 8, -1, 0, waited),
                                 job(3, only1, 1, -1, 0, waited)};
      ArenaScheduler(options).round(jobs, {9});
      CHECK(jobs[2].gpus == (waited > 0 ? 0 : 1));
    }
    // A job of the first queue is served before an older one of a lower queue.
    std::vector<ArenaJob> jobs{job(1, only8, 8, -1, 0, 0), job(2, only8, 8, -1, 0, 3600)};
    ArenaScheduler(options).round(jobs, {8});
    CHECK(gpus_of(jobs) == std::vector<int>{0, 8});
  }

  TEST_CASE("a job has waited as long as it was without GPUs, not since its submission") {
    sim_cases::World world;
    world.add(10, 1000);
    double start = 0, stop = 0, again = 0;
    std::map<double, double> waited;  // by the time
    sim_cases::Scripted policy([&](const SimulatedView& view) -> std::vector<Act> {
      const SimulatedJobState& job = *view.jobs.front();
      const double now = view.input.now;
      waited[now] = job.waited_until(now);
      const Plan plan = basic_plan(*job.kind, {{"n1", 0}});
      if (job.redeploying) return {};
      if (!job.plan && start == 0 && now >= 100) return start = now, std::vector<Act>{{1, plan, "", {}}};
      if (job.plan && stop == 0 && now >= 300) return stop = now, std::vector<Act>{{1, {}, "", {}}};
      if (!job.plan && stop > 0 && again == 0 && now >= 500) return again = now, std::vector<Act>{{1, plan, "", {}}};
      return {};
    });
    policy.period_ = 50;
    policy.owns_queue_ = true;
    world.run(policy);
    REQUIRE(again > 0);
    for (const auto& [now, seconds] : waited) {
      CAPTURE(now);
      const double before = std::min(now, start) - 10, between = std::clamp(now, stop, again) - stop;
      CHECK(seconds == doctest::Approx(before + between));
    }
    CHECK(waited.rbegin()->first > again);
  }

  TEST_CASE("a job whose layers fit no grid runs on the plan that the planner's own search finds") {
    sim_cases::World world;
    JobKind three;
    three.model = "three";
    three.pp = 3;
    three.shape = {"gpt2", 3, 1024, 16, 1024, 50257, 64, 1};
    three.coefficients = assumed_coefficients(three.shape, {0.45, true, false}, world.site->hardware);
    // A GPU holds one of the layers, and grids have 1, 2, 4, ... stages.
    three.coefficients.tp_degrees = {1};
    three.coefficients.param_optim_bytes = 50e9;
    three.coefficients.first.compute_layers = 1;  // two GPUs for the first stage pay
    world.kinds = {*tuned(three, *world.site, world.cluster)};
    world.add(0, 5000);
    const auto policy = make_policy("arena");
    const PolicyRun run = world.run(*policy);
    CHECK(run.jobs.at(0).end > run.jobs.at(0).start);
    CHECK(run.jobs.at(0).most_gpus == 4);
  }
}
