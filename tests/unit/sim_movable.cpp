// Movable jobs in the simulator, on cases solved by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>

#include "planner/sim/policies/policies.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::sim_cases;

namespace {

// Decides nothing. Its movable jobs move as those of policy espalier.
class Still final : public sim::Policy {
 public:
  using Sees = std::function<void(const sim::SimulatedView&)>;
  explicit Still(Sees sees = {}) : sees_(std::move(sees)) { options_.redeploy_seconds = 1; }
  std::string name() const override { return "still"; }
  sim::Method redeployment() const override { return sim::Method::adopt; }
  bool keeps_basic() const override { return true; }
  std::optional<sim::BaseMoves> base_moves() const override { return sim::BaseMoves{&options_, gain_}; }
  std::vector<sim::Act> decide(const sim::SimulatedView& view) override {
    if (sees_) sees_(view);
    return acts_ ? acts_(view) : std::vector<sim::Act>();
  }

  SchedulerOptions options_;
  double gain_ = 1.1;
  std::function<std::vector<sim::Act>(const sim::SimulatedView&)> acts_;

 private:
  Sees sees_;
};

constexpr double kStart = 10, kPause = 1;  // of every redeployment

// Nodes of as many GPUs. Kinds 0, 1, 2, ... ask for these numbers of GPUs.
struct Bases : World {
  Bases(int nodes, int gpus, std::vector<int> degrees) : World(nodes, gpus, std::move(degrees)) {
    options.queue = sim::QueueOrder::backfill;
    options.redeploy.measured[sim::Method::adopt] = {kStart, kPause};
  }
  void movable(double submit, double seconds, std::size_t kind) {
    add(submit, seconds, kind);
    jobs.back().movable = true;
  }
};

// Two nodes of four. Job 1 has n1 until 100; job 2 has half of n2 for long. Job 3 is movable and wants four GPUs at 10.
struct Waits : Bases {
  Waits() : Bases(2, 4, {4, 2, 1}) {
    add(0, 100, 0);
    add(0, 1000, 1);
    movable(10, 100, 0);
  }
};

struct Seen {
  std::map<double, int> gpus;                // of the present plan of job 3, by time
  std::map<double, std::set<JobId>> owners;  // of GPUs
  std::map<double, double> steps;            // seconds of job 3's step, by time
};

Still watching(Seen& seen, JobId of = 3) {
  return Still([&seen, of](const sim::SimulatedView& view) {
    for (const auto* job : view.jobs)
      if (job->id == of) {
        seen.gpus[view.input.now] = job->plan ? job->plan->gpu_count() : 0;
        seen.steps[view.input.now] = job->step_seconds;
      }
    auto& owners = seen.owners[view.input.now];
    for (const NodeView& node : view.input.cluster.nodes) owners.insert(node.gpu_owner.begin(), node.gpu_owner.end());
    owners.erase(0);
  });
}

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("a movable job starts on idle GPUs after Slurm's five seconds, and moves when its base is granted") {
    Waits world;
    Seen seen;
    Still policy = watching(seen);
    const auto run = world.run(policy);
    const auto& job = run.jobs[2];
    CHECK(job.start == 15);
    CHECK(job.started_smaller);
    CHECK(job.moves == 0);
    // Its base is on n1, the smaller one was on n2: training goes over with a GPU of n2, and leaves that in a second
    // change.
    CHECK(job.redeployments == 2);
    CHECK(seen.gpus.at(15) == 2);
    CHECK(seen.gpus.at(100) == 2);
    CHECK(job.most_gpus == 4);
    // Steps of the smaller base end at 100 + kStart and a step at the latest.
    const double small = seen.steps.at(15), full = world.kinds[0].step_seconds;
    const double moved = 15 + small * std::ceil((100 + kStart - 15) / small - 1e-9);
    const double left = 100 / full - (moved - 15) / small;  // steps
    CHECK(job.end > moved + 2 * kPause + left * full);
    CHECK(job.end < moved + 2 * kPause + left * full + kStart + full);  // a GPU of n2 may be slower, for kStart
    CHECK(job.end < 200);                                               // where it waits for its base
    CHECK(run.jobs[0].end == doctest::Approx(100));
    CHECK(run.jobs[1].end == doctest::Approx(1000));
  }

  TEST_CASE("a movable job waits as any other where nothing is idle, and under a policy that moves no bases") {
    Waits world;
    world.jobs.push_back({4, 0, 1, 1000 / world.kinds[1].step_seconds, {}});  // the other half of n2
    std::swap(world.jobs[2], world.jobs[3]);
    world.jobs[2].id = 3, world.jobs[3].id = 4;
    Still still;
    CHECK(world.run(still).jobs[3].start == doctest::Approx(100));
    for (const char* name : {"suika", "fifo", "flextrain"}) {
      Waits other;
      CHECK_FALSE(other.run(*sim::make_policy(name)).jobs[2].started_smaller);
    }
  }

  TEST_CASE("no smaller base starts in a strict queue, which has no backfill scheduler") {
    for (const auto order : {sim::QueueOrder::fifo, sim::QueueOrder::sjf}) {
      Waits world;
      world.options.queue = order;
      Still policy;
      const auto run = world.run(policy);
      CHECK(run.jobs[2].start == doctest::Approx(100));
      CHECK_FALSE(run.jobs[2].started_smaller);
    }
  }

  TEST_CASE("a smaller base starts on Slurm's queue, where it delays no reservation") {
    Waits world;
    world.options.queue = sim::QueueOrder::slurm;
    world.jobs[0].time_limit = 300, world.jobs[1].time_limit = 3000, world.jobs[2].time_limit = 300;
    Still policy;
    CHECK(world.run(policy).jobs[2].start == 15);
    // n2 is where its base is expected first: the smaller base would be there beyond that.
    world.jobs[0].time_limit = 9000, world.jobs[1].time_limit = 100;
    const auto run = world.run(policy);
    CHECK(run.jobs[2].start == doctest::Approx(100));
    CHECK_FALSE(run.jobs[2].started_smaller);
  }

  TEST_CASE("a smaller base that Slurm would not start rests for 15 s, then for twice as long") {
    // n1 is the first to have room for the base, by the time limits: a smaller one there would be in its way.
    Bases world(2, 4, {4, 2});
    world.add(0, 1000, 0);
    world.add(0, 30, 1);  // on n2, limit 60
    world.movable(1, 400, 0);
    Seen seen;
    Still policy = watching(seen);
    const auto run = world.run(policy);
    CHECK(run.jobs[2].start == doctest::Approx(30));
    CHECK(seen.gpus.contains(6));
    CHECK(seen.gpus.contains(21));
  }

  TEST_CASE("the base that waits keeps its place in the queue, and the smaller one delays nobody behind it") {
    Waits world;
    world.add(20, 50, 0);  // wants a whole node, too
    Still policy;
    const auto run = world.run(policy);
    CHECK(run.jobs[2].start == 15);
    CHECK(run.jobs[3].start > 100);
    CHECK(run.jobs[3].start == doctest::Approx(run.jobs[2].end));
    // Without the smaller base it would have begun later.
    world.jobs[2].movable = false;
    const auto plain = world.run(policy);
    CHECK(plain.jobs[3].start == doctest::Approx(200));
    CHECK(run.jobs[3].end < plain.jobs[3].end);
  }

  TEST_CASE("GPUs are left to another job that waits and could use them") {
    Waits world;
    world.add(11, 50, 0);
    Still policy;
    const auto run = world.run(policy);
    CHECK(run.jobs[2].start == doctest::Approx(100));
    CHECK_FALSE(run.jobs[2].started_smaller);
  }

  TEST_CASE("no smaller base is looked for while extensions can give their GPUs back for the base") {
    for (const bool grows : {true, false}) {
      Bases world(3, 4, {2, 4});
      world.add(0, 1000, 0);              // n1
      world.add(0, 1000, 0);              // n1
      world.add(0, 1000, 0);              // n2: two stay idle
      if (!grows) world.add(0, 1000, 1);  // n3
      world.movable(60, 100, 1);
      Still policy;
      sim::JobKind four = world.kinds[0];
      four.dp = 4;
      const Plan wide = sim::basic_plan(four, {{"n1", 0}, {"n1", 1}, {"n3", 0}, {"n3", 1}});
      policy.acts_ = [&](const sim::SimulatedView& view) -> std::vector<sim::Act> {
        const sim::SimulatedJobState& job = *view.jobs.front();
        if (grows && job.id == 1 && !job.redeploying && job.plan->gpu_count() == 2) return {{1, wide, "", {}}};
        return {};
      };
      const auto run = world.run(policy);
      CHECK(run.jobs.back().started_smaller == !grows);
      if (grows) CHECK(run.jobs.back().start == doctest::Approx(run.jobs.front().end));
    }
  }

  TEST_CASE("a job that ends on its smaller base gives up its place in the queue") {
    Waits world;
    world.jobs[2].iterations = 20 / world.kinds[0].step_seconds;  // on two GPUs some 40 s
    world.add(90, 50, 0);
    for (const double end_seconds : {0.0, 8.0}) {
      world.options.delays.end_seconds = end_seconds;
      Still policy;
      const auto run = world.run(policy);
      CHECK(run.jobs[2].end < 90);
      CHECK(run.jobs[2].redeployments == 0);
      CHECK(run.jobs[3].start == doctest::Approx(100 + end_seconds));
    }
  }

  TEST_CASE("a smaller base is held beside the base for five steps, and then given back") {
    Waits world;
    Seen seen;
    Still policy = watching(seen);
    world.run(policy);
    const auto at = [&](double time) { return std::prev(seen.owners.upper_bound(time))->second; };
    const auto small = at(15);
    CHECK(small.size() == 3);
    const JobId base = *small.rbegin();
    CHECK(base > 3);
    CHECK(at(100).contains(base));
    CHECK(at(100).size() == 3);  // job 2, both bases
    double gone = 0;
    for (const auto& [time, owners] : seen.owners)
      if (time > 15 && !owners.contains(base)) gone = gone == 0 ? time : gone;
    CHECK(gone > 100 + 2 * (kStart + kPause));
    CHECK(gone < 100 + 2 * (kStart + kPause) + 12 * world.kinds[0].step_seconds);
  }

  TEST_CASE("where a node stays, training moves in one change") {
    Bases world(2, 8, {4, 2, 8});
    world.add(0, 100, 0);   // n1
    world.add(0, 1000, 1);  // n1
    world.add(0, 2000, 2);  // n2
    world.movable(10, 100, 0);
    Still policy;
    const auto run = world.run(policy);
    CHECK(run.jobs[3].start == 15);
    CHECK(run.jobs[3].redeployments == 1);
  }

  TEST_CASE("a smaller base has the GPUs that hold the model's state") {
    for (const int idle : {1, 4}) {
      Bases world(2, 8, {8, 1});
      for (const sim::JobKind& kind : sim::paper_kinds(*world.site, world.cluster))
        if (kind.model == "llama2-7b") world.kinds.push_back(kind);
      REQUIRE(sim::state_bytes(world.kinds[2].coefficients) > 80e9);  // of one GPU
      world.add(0, 1000, 0);
      for (int i = 0; i < 8 - idle; ++i) world.add(0, 1000, 1);
      world.movable(10, 100, 2);
      Still policy;
      CHECK(world.run(policy).jobs.back().started_smaller == (idle == 4));
    }
  }

  TEST_CASE("a base makes room for a job that waits for a whole node") {
    Bases world(2, 4, {2, 4});
    world.movable(0, 1000, 0);  // n1
    world.add(0, 50, 0);        // n1
    world.add(0, 1000, 0);      // n2
    world.add(60, 100, 1);      // finds two idle GPUs on each node
    Still policy;
    const auto run = world.run(policy);
    CHECK(run.jobs[0].moves == 1);
    CHECK(run.jobs[3].start > 60 + kStart);
    CHECK(run.jobs[3].start < 60 + 2 * (kStart + kPause) + 12 * world.kinds[0].step_seconds);
    CHECK(run.jobs[0].end > 1000);
    CHECK(run.jobs[0].end < 1000 + 2 * kPause + kStart + 2);
    world.jobs[0].movable = false;
    CHECK(world.run(policy).jobs[3].start == doctest::Approx(1000));
  }

  TEST_CASE("a second base is withdrawn for a job that begins to wait and could use it") {
    Bases world(2, 4, {2, 4, 1});
    sim::JobKind three = world.kinds[0];
    three.dp = 3, three.on = {};
    three.shape.global_batch = 96;
    three.coefficients = sim::assumed_coefficients(three.shape, {0.45, true, false}, world.site->hardware);
    world.kinds.push_back(*sim::tuned(three, *world.site, world.cluster));
    world.movable(0, 1000, 0);  // n1
    world.add(0, 50, 0);        // n1
    world.add(0, 1000, 2);      // n2
    world.add(60, 100, 1);      // job 1 begins to move to n2
    world.add(65, 30, 3);       // would fit on n2
    Still policy;
    const auto run = world.run(policy);
    CHECK(run.jobs[4].start == doctest::Approx(65));
    CHECK(run.jobs[0].moves == 1);  // when job 5 has ended
    CHECK(run.jobs[3].start > 95 + kStart);
    CHECK(run.jobs[3].start < 95 + 2 * (kStart + kPause) + 12 * world.kinds[0].step_seconds);
  }

  TEST_CASE("a base moves to a faster type of GPU, once it was measured, and no oftener than every ten minutes") {
    Bases world(2, 4, {4});
    world.cluster.nodes[0].gpu_type = "a100";
    world.cluster.nodes[1].gpu_type = "v100";
    world.site = site_of(world.cluster);
    world.kinds = {small_kind(*world.site, world.cluster, 4)};
    const double slower = world.kinds[0].on[1].step_seconds / world.kinds[0].on[0].step_seconds;
    REQUIRE(world.kinds[0].on[0].gpu_type == "a100");
    REQUIRE(slower > 1.2);
    world.add(0, 100, 0);       // on a100
    world.movable(1, 2000, 0);  // on v100
    world.options.queue = sim::QueueOrder::fifo;
    Seen seen;
    Still policy = watching(seen, 2);
    const auto run = world.run(policy);
    CHECK(run.jobs[1].moves == 1);
    CHECK(run.jobs[1].redeployments == 2);
    const double left = 2000 - 100 / slower;
    CHECK(run.jobs[1].end > 100 + left);
    CHECK(run.jobs[1].end < 100 + left + 2 * (kStart + kPause) * slower + 10);
    policy.gain_ = slower * 1.1;
    CHECK(world.run(policy).jobs[1].moves == 0);
    policy.gain_ = 0;  // moves to make room alone
    CHECK(world.run(policy).jobs[1].moves == 0);
    // Policy arena decides on such a move itself.
    CHECK(world.run(*sim::make_policy("arena-anchored")).jobs[1].moves == 1);
    sim::PolicyOptions never;
    never.anchored.migrate_gain = never.migrate_gain = 0;
    CHECK(world.run(*sim::make_policy("arena-anchored", never)).jobs[1].moves == 0);
  }
}
