// The order of Slurm's queue and its backfill scheduler, compared with their definitions.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "planner/sim/node_timeline.hpp"
#include "planner/sim/policies/policies.hpp"
#include "planner/sim/policies/queue_order.hpp"
#include "planner/sim/slurm_priority.hpp"
#include "planner/sim/start_plan.hpp"
#include "planner/sim/time_limits.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::sim_cases;

namespace {

// Waiting jobs of these numbers of GPUs and time limits, in a queue in Slurm's order.
struct Queued : WaitingJobs {
  Queued(const ClusterView& view, const std::vector<int>& gpus, const std::vector<double>& limits,
         const sim::SlurmQueueOptions& options = {})
      : WaitingJobs(cluster_of(static_cast<int>(view.nodes.size()), static_cast<int>(view.nodes[0].gpu_owner.size())),
                    gpus, 100),
        cluster(view),
        queue(sim::QueueOrder::slurm, sim::SlurmPriority(view, options)) {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      jobs[i].time_limit = limits[i];
      queue.add(states[i]);
    }
  }
  // A pass at time 6. `ends`: of running jobs.
  std::vector<sim::PlannedStart> pass(const std::map<JobId, double>& ends, int most_jobs = 100) {
    queue.turn_to(6);
    sim::StartQuestion question;
    question.cluster = &cluster, question.extensions = &extensions, question.leaving = &leaving;
    question.preempt = preempt, question.now = 6, question.most_jobs = most_jobs;
    question.end_of = [&](JobId owner) { return ends.at(owner); };
    return sim::plan_starts(queue, question);
  }
  ClusterView cluster;
  sim::BaseQueue queue;
  std::vector<JobId> extensions;
  std::set<JobId> leaving;
  sim::Preemption preempt = sim::Preemption::none;
};

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("Slurm's priority is the weighted sum of age and size, and the queue follows it as time passes") {
    sim::SlurmQueueOptions options;
    options.weight_age = 1000, options.weight_job_size = 400, options.max_age_seconds = 1000;
    const ClusterView cluster = cluster_of(4, 4);
    Queued queued(cluster, {1, 16, 4}, {60, 60, 60}, options);
    const sim::SlurmPriority priority(cluster, options);
    // One GPU of 16 on one node of four; all; one node.
    CHECK(priority.of(queued.states[0], 500) == std::floor(1000 * 0.5 + 400 * (0.25 + 1.0 / 16) / 2));
    CHECK(priority.of(queued.states[1], 501) == std::floor(1000 * 0.5 + 400 * 1.0));
    CHECK(priority.of(queued.states[2], 5000) == std::floor(1000 + 400 * 0.25));  // the age counts up to the maximum
    options.favor_small = true;
    CHECK(sim::SlurmPriority(cluster, options).of(queued.states[1], 501) == std::floor(1000 * 0.5));
    queued.queue.turn_to(10);
    CHECK(queued.queue.waiting().front()->id == 101);  // the largest
    queued.jobs[0].submit = -990;                      // has waited for as long as counts
    queued.queue.turn_to(10);
    CHECK(queued.queue.waiting().front()->id == 100);
  }

  TEST_CASE("without weights the queue is first in, first out") {
    sim::SlurmQueueOptions options;
    options.weight_age = options.weight_job_size = 0;
    Queued queued(cluster_of(2, 4), {1, 8, 2}, {60, 60, 60}, options);
    queued.queue.turn_to(1000);
    std::vector<JobId> order;
    for (const auto* job : queued.queue.waiting()) order.push_back(job->id);
    CHECK(order == std::vector<JobId>{100, 101, 102});
  }

  TEST_CASE("time limits are what people write down, are never too short, and follow from the seed") {
    CHECK(sim::rounded_limit(1) == 300);
    CHECK(sim::rounded_limit(3601) == 7200);
    CHECK(sim::rounded_limit(19 * 3600) == 86400);
    CHECK(sim::rounded_limit(86401) == 2 * 86400);
    World world;
    for (int i = 0; i < 200; ++i) world.add(i, 10 + 37 * i);
    std::vector<double> traced(world.jobs.size(), 0);
    traced[3] = 2.5, traced[4] = 0.5;
    auto jobs = world.jobs, again = world.jobs, other = world.jobs;
    sim::set_time_limits(jobs, world.kinds, traced, 1);
    sim::set_time_limits(again, world.kinds, traced, 1);
    sim::set_time_limits(other, world.kinds, traced, 2);
    int different = 0;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const double alone = 10.0 + 37 * static_cast<double>(i);
      CHECK(jobs[i].time_limit >= alone * (1 - 1e-9));
      CHECK(jobs[i].time_limit == again[i].time_limit);
      different += jobs[i].time_limit != other[i].time_limit;
    }
    CHECK(jobs[3].time_limit == doctest::Approx(2.5 * (10 + 3 * 37)));
    CHECK(jobs[4].time_limit == doctest::Approx(10 + 4 * 37));  // a trace's limit that ended the job
    CHECK(different > 50);
  }

  TEST_CASE("no job that backfill starts delays a job before it, and no GPU is given twice") {
    std::mt19937 random(3);
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    int backfilled = 0;
    for (int round = 0; round < 300; ++round) {
      ClusterView cluster = cluster_of(4, round % 2 == 0 ? 4 : 3);
      std::map<JobId, double> ends;
      for (NodeView& node : cluster.nodes)
        for (JobId& owner : node.gpu_owner)
          if (pick(2) == 0) ends[owner = static_cast<JobId>(1 + pick(6))] = 50 + 100.0 * pick(10);
      std::vector<int> gpus;
      std::vector<double> limits;
      for (int i = 0; i < 6; ++i) {
        gpus.push_back(std::vector<int>{1, 2, 4, 4, 8}[static_cast<std::size_t>(pick(5))]);
        limits.push_back(60.0 * (1 + pick(15)));
      }
      Queued queued(cluster, gpus, limits);
      const auto planned = queued.pass(ends);
      ClusterView then = queued.cluster;
      std::optional<sim::PlannedStart> first;  // that has no place
      for (const sim::PlannedStart& one : planned) {
        if (!one.place) {
          if (!first) first = one;
          continue;
        }
        CHECK(static_cast<int>(one.place->size()) == one.job->kind->gpus());
        backfilled += first.has_value();
        ends[one.job->id] = 6 + one.job->job->time_limit;
        for (const GpuId& gpu : *one.place)
          for (NodeView& node : then.nodes)
            if (node.name == gpu.node) {
              JobId& owner = node.gpu_owner[static_cast<std::size_t>(gpu.index)];
              CHECK(owner == 0);
              owner = one.job->id;
            }
      }
      if (!first) continue;
      // With what started beside it, it starts no later than was foreseen.
      const sim::NodeTimeline timeline(then, 6, [&](JobId owner) { return ends.at(owner); });
      CHECK(timeline.earliest(first->job->kind->gpus(), "h100", first->job->job->time_limit).start <=
            first->start.time);
    }
    CHECK(backfilled > 50);
  }

  TEST_CASE("a pass looks at no more jobs than it may") {
    Queued queued(cluster_of(4, 4), {1, 1, 1, 1, 1}, {60, 60, 60, 60, 60});
    CHECK(queued.pass({}, 3).size() == 3);
  }

  TEST_CASE("lent GPUs are taken back by Slurm's choice, where idle ones and those that leave do not do") {
    // n1: job 1, which ends late, and extension 50; n2: extension 51, which leaves, and 52.
    ClusterView cluster = cluster_of(2, 4);
    cluster.nodes[0].gpu_owner = {1, 1, 50, 50};
    cluster.nodes[1].gpu_owner = {51, 51, 52, 0};
    const std::map<JobId, double> ends{{1, 10000}};
    const auto start_of = [&](int gpus, sim::Preemption preempt, std::set<JobId> leaving) {
      Queued queued(cluster, {gpus}, {60});
      queued.extensions = {50, 51, 52};
      queued.leaving = std::move(leaving);
      queued.preempt = preempt;
      return queued.pass(ends).at(0);
    };
    const auto idle = start_of(1, sim::Preemption::oldest, {});
    CHECK(idle.idle);
    CHECK(idle.preempted.empty());
    const auto leaves = start_of(2, sim::Preemption::oldest, {51});
    REQUIRE(leaves.place);
    CHECK_FALSE(leaves.idle);
    CHECK(leaves.preempted.empty());
    CHECK(start_of(2, sim::Preemption::oldest, {}).preempted == std::vector<JobId>{50});
    CHECK(start_of(2, sim::Preemption::youngest, {}).preempted == std::vector<JobId>{52});
    const auto whole = start_of(4, sim::Preemption::oldest, {});  // only n2 has so many
    CHECK(std::set<JobId>(whole.preempted.begin(), whole.preempted.end()) == std::set<JobId>{51, 52});
    REQUIRE(whole.place);
    CHECK(whole.place->front().node == "n2");
    const auto nothing = start_of(8, sim::Preemption::oldest, {});  // job 1 is in the way
    CHECK_FALSE(nothing.place);
    CHECK(nothing.preempted.empty());
    CHECK(nothing.start.time == 10000);
  }

  TEST_CASE("a job starts on a node whose rest is not free, and a type that is asked for is waited for") {
    ClusterView cluster = cluster_of(3, 3);
    cluster.nodes[1].gpu_owner = {1, 0, 0};
    Queued queued(cluster, {4}, {60});  // a whole node and a third of another one
    const auto planned = queued.pass({{1, 500}});
    REQUIRE(planned.at(0).place);
    CHECK(planned[0].place->size() == 4);
    for (NodeView& node : queued.cluster.nodes) node.gpu_type = "a100";
    const auto other = queued.pass({{1, 500}});
    CHECK_FALSE(other.at(0).place);
  }

  TEST_CASE(
      "policies that start jobs themselves take the waiting ones in the queue's order, the others where they stand") {
    WaitingJobs all(cluster_of(4, 4), {1, 2, 4, 1});
    std::vector<const sim::SimulatedJobState*> jobs, waiting;
    for (const auto& state : all.states) jobs.push_back(&state);
    waiting = {&all.states[3], &all.states[0], &all.states[2]};  // the second one runs
    const PlanningInput input;
    sim::SimulatedView view{input, jobs};
    view.waiting = waiting;
    CHECK(sim::queue_order(view) == std::vector<std::size_t>{3, 1, 0, 2});
    view.waiting = {};
    CHECK(sim::queue_order(view) == std::vector<std::size_t>{0, 1, 2, 3});
  }

  TEST_CASE("a simulation under Slurm's queue gives the same twice, and ends every job") {
    World world(2, 4, {1, 4, 8});
    for (int i = 0; i < 40; ++i) world.add(3.0 * i, 20 + 5 * (i % 7), static_cast<std::size_t>(i % 3));
    world.options.queue = sim::QueueOrder::slurm;
    sim::set_time_limits(world.jobs, world.kinds, std::vector<double>(world.jobs.size(), 0), 1);
    for (const char* policy : {"slurm", "espalier"}) {  // espalier: extensions are lent, and taken back
      const auto run = [&] { return world.run(*sim::make_policy(policy)); };
      const auto one = run(), two = run();
      CHECK(one.order == "slurm");
      REQUIRE(one.jobs.size() == 40);
      for (std::size_t i = 0; i < one.jobs.size(); ++i) {
        CHECK(one.jobs[i].end > one.jobs[i].start);
        CHECK(one.jobs[i].start == two.jobs[i].start);
        CHECK(one.jobs[i].end == two.jobs[i].end);
      }
    }
  }

  TEST_CASE("under Slurm's queue Slurm takes extensions back by itself, unless that is turned off") {
    World world;
    world.add(0, 1000);
    world.add(100, 10);
    world.options.queue = sim::QueueOrder::slurm;
    world.options.redeploy.profile_seconds = 15;
    world.options.redeploy.measured[sim::Method::adopt] = {10, 1};
    sim::set_time_limits(world.jobs, world.kinds, std::vector<double>(world.jobs.size(), 0), 1);
    sim::JobKind four = world.kinds[0];
    four.dp = 4;
    const Plan wide = sim::basic_plan(four, {{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}});
    Scripted policy([&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
      // It never gives anything back.
      if (view.input.now < 15 || view.input.now > 60 || view.jobs[0]->redeploying) return {};
      if (!view.input.jobs[0].extensions.empty()) return {};
      return {{1, wide, "", {}}};
    });
    policy.keeps_basic_ = true;
    policy.method_ = sim::Method::adopt;
    const sim::PolicyRun run = world.run(policy);
    CHECK(run.jobs[1].start < 150);
    CHECK(run.jobs[0].end > 200);
    world.options.delays.preempt = sim::Preemption::none;
    const sim::PolicyRun kept = world.run(policy);
    CHECK(kept.jobs[1].start >= kept.jobs[0].end);
  }
}
