// Policy arena: which job scales, to what and where, when it pays, and who gives GPUs back.
#include <bit>

#include "planner/core/model/assumed_range.hpp"
#include "planner/core/schedule/arena/arena.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/core/schedule/move.hpp"
#include "tests/unit/random_clusters.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

std::vector<Decision> scale(const PlanningInput& input, const SchedulerOptions& options = {},
                            const ArenaPolicyOptions& arena = {}) {
  return make_arena_scheduler(options, arena)->decide(input);
}

int held_by(const ElasticJob& job) {
  std::size_t sum = 0;
  for (const auto* holdings : {&job.anchor, &job.extensions})
    for (const Holding& held : *holdings) sum += held.gpus.size();
  return static_cast<int>(sum);
}
int basic_of(const ElasticJob& job) {
  std::size_t sum = 0;
  for (const Holding& held : job.anchor) sum += held.gpus.size();
  return static_cast<int>(sum);
}
int acquired(const Decision& decision) {
  int sum = 0;
  for (const ExtensionRequest& request : decision.acquire) sum += request.gpus;
  return sum;
}
int released(const ElasticJob& job, const Decision& decision) {
  std::size_t sum = 0;
  for (const Holding& held : job.extensions)
    if (std::find(decision.release.begin(), decision.release.end(), held.job) != decision.release.end())
      sum += held.gpus.size();
  return static_cast<int>(sum);
}

// Computation scales well: 8 layers, 16 samples, and any number of micro-batches.
ElasticJob wide(JobId id, const std::string& on, const std::vector<int>& gpus, int max_gpus = 8) {
  ElasticJob one = job(id, on, gpus, max_gpus);
  one.model.global_batch = 16;
  one.parallel.micro_batches = 0;
  one.plan = uniform_plan(one.plan->gpu_count(), 1, 8, 16, 4, one.plan->ranks());
  return one;
}
void lend(ElasticJob& to, JobId extension, const std::string& on, const std::vector<int>& gpus) {
  extend(to, extension, on, gpus);
  to.plan = uniform_plan(to.plan->gpu_count(), 1, 8, 16, 4, to.plan->ranks());
}
// Nothing of the jobs' times is assumed.
PlanningInput measured(PlanningInput input) {
  input.site = std::make_shared<const Site>(site_from_view(input.cluster, {}).site);
  for (const ElasticJob& one : input.jobs)
    count_as_measured(input.coefficients[one.id] = assumed_for(one, *input.site));
  return input;
}

// Movable job 5 has two A100 of n1, and an hour left; two H100, which are 3.2 times as fast, are idle on n2.
PlanningInput slow() {
  ElasticJob one = wide(5, "n1", {0, 1});
  one.anchor.front().job = 1005;
  one.total_steps = 3600;
  PlanningInput input = measured(input_of({node("n1", 2, "leaf1", "a100"), node("n2", 2, "leaf1", "h100")}, {one}));
  input.movable = {{5, {}}};
  return input;
}

}  // namespace

TEST_SUITE("arena policy") {
  TEST_CASE("a job grows to a power of two on GPUs of its own type, and no further than its maximum") {
    for (const int most : {8, 7, 3, 2}) {
      CAPTURE(most);
      const PlanningInput input = measured(
          input_of({node("n1", 4), node("n2", 8), node("n3", 8, "leaf1", "a100")}, {wide(1, "n1", {0}, most)}));
      const auto decisions = scale(input);
      REQUIRE(decisions.size() == 1);
      CHECK(decisions.front().kind == DecisionKind::grow);
      CHECK(1 + acquired(decisions.front()) == (most == 8 ? 8 : most == 7 ? 4 : 2));
      CHECK(decisions.front().plan.gpu_count() == 1 + acquired(decisions.front()));
      for (const ExtensionRequest& request : decisions.front().acquire) CHECK(request.node != "n3");
      CHECK(decisions.front().reason.find("scaled from 1 to ") != std::string::npos);
    }
  }

  TEST_CASE("a decision takes no more steps than its search depth") {
    const PlanningInput input = measured(input_of({node("n1", 8)}, {wide(1, "n1", {0})}));
    for (const int depth : {1, 2, 3}) {
      const auto decisions = scale(input, {}, {depth, 1.1});
      REQUIRE(decisions.size() == 1);
      CHECK(1 + acquired(decisions.front()) == 1 << depth);
    }
  }

  TEST_CASE("a job grows only where that wins more than its redeployment costs") {
    const PlanningInput input = measured(input_of({node("n1", 8)}, {wide(1, "n1", {0})}));
    SchedulerOptions dear;
    dear.redeploy_seconds = 100000;
    CHECK(scale(input).size() == 1);
    const auto scheduler = make_arena_scheduler(dear, {});
    CHECK(scheduler->decide(input).empty());
    REQUIRE(scheduler->weighed().size() == 1);
    CHECK(scheduler->weighed().front().verdict.find("the change would not win what it costs") != std::string::npos);
  }

  TEST_CASE("the job that loses least by it gives GPUs back, down to a power of two") {
    // Job 2 has GPUs that make it little faster: one sample at a time.
    ElasticJob fast = wide(1, "n1", {0}), flat = wide(2, "n2", {0});
    lend(fast, 101, "n1", {1});
    lend(fast, 102, "n3", {0, 1});
    lend(flat, 103, "n2", {1});
    lend(flat, 104, "n3", {2, 3});
    flat.model.global_batch = 1;
    flat.plan = uniform_plan(4, 1, 8, 1, 1, flat.plan->ranks());
    PlanningInput input = measured(input_of({node("n1", 2), node("n2", 2), node("n3", 4)}, {fast, flat}));
    input.cluster.waiting = {{50, 1, 1, {"n3"}, {}, 1}};
    const auto decisions = scale(input);
    REQUIRE(decisions.size() == 1);
    CHECK(decisions.front().job == 2);
    CHECK(decisions.front().kind == DecisionKind::shrink);
    const int left = 4 - released(input.jobs[1], decisions.front());
    CHECK(left <= 2);
    CHECK(std::has_single_bit(static_cast<unsigned>(left)));
    CHECK(std::find(decisions.front().release.begin(), decisions.front().release.end(), 104) !=
          decisions.front().release.end());
  }

  TEST_CASE("a job that gives a GPU back goes down to the next power of two, and a job that waits is served whole") {
    ElasticJob one = wide(1, "n1", {0});
    lend(one, 101, "n1", {1});
    lend(one, 102, "n3", {0});
    lend(one, 103, "n3", {1});
    PlanningInput input = measured(input_of({node("n1", 2), node("n3", 2)}, {one}));
    for (const int wanted : {1, 2}) {
      input.cluster.waiting = {{50, wanted, 1, {"n3"}, {}, 1}};
      const auto decisions = scale(input);
      REQUIRE(decisions.size() == 1);
      CHECK(released(input.jobs[0], decisions.front()) == 2);
      CHECK(decisions.front().plan.gpu_count() == 2);
    }
  }

  TEST_CASE("extensions of another type than the job's own GPUs are given back") {
    ElasticJob one = wide(1, "n1", {0, 1});
    lend(one, 101, "n1", {2, 3});
    lend(one, 102, "n2", {0, 1});
    const PlanningInput input = measured(input_of({node("n1", 4), node("n2", 4, "leaf1", "a100")}, {one}));
    const auto decisions = scale(input);
    REQUIRE(decisions.size() == 1);
    CHECK(decisions.front().kind == DecisionKind::shrink);
    CHECK(decisions.front().release == std::vector<JobId>{102});
    CHECK(decisions.front().reason == "it keeps to GPUs of one type: give back 2 GPUs, run on 4");
  }

  TEST_CASE("the base of a movable job goes to a faster type") {
    PlanningInput input = slow();
    SUBCASE("where nothing is idle on its own") {}
    SUBCASE("and does not grow on its own at the same time") { input.cluster.nodes[0].gpu_owner.resize(4); }
    input = measured(std::move(input));
    const auto decisions = scale(input);
    REQUIRE(decisions.size() == 1);
    CHECK(moves_base(decisions.front()));
    CHECK(decisions.front().acquire.front().node == "n2");
    CHECK(decisions.front().acquire.front().gpus == 2);
    CHECK(decisions.front().predicted_step_seconds < 0.5);
  }

  TEST_CASE("the base of a movable job stays on its type") {
    PlanningInput input = slow();
    ArenaPolicyOptions arena;
    SUBCASE("where it is not movable") { input.movable.clear(); }
    SUBCASE("where types= leaves the other out") { input.movable.front().reach.types = {"a100"}; }
    SUBCASE("where the site wants no moves") { arena.migrate_gain = 0; }
    SUBCASE("where the site wants more of a move") { arena.migrate_gain = 5; }
    SUBCASE("where too few are idle") { input.cluster.nodes[1].gpu_owner[0] = 9; }
    SUBCASE("shortly before its end") { input.jobs.front().step = 3550; }
    SUBCASE("while it is held") { input.jobs.front().held = true; }
    SUBCASE("right after another change") { input.last_change[5] = input.now - 1; }
    SUBCASE("where a waiting job could use the GPUs") { input.cluster.waiting = {{50, 8, 1, {}, {}, 1}}; }
    CHECK(scale(input, {}, arena).empty());
  }

  TEST_CASE("where many bases could move, each gets its turn, one at a time") {
    // Of ten jobs the first nine cannot end up on n2: they end too soon.
    std::vector<ElasticJob> jobs;
    std::vector<NodeView> nodes;
    for (JobId id = 1; id <= 10; ++id) {
      const std::string name = "a" + std::to_string(id);
      nodes.push_back(node(name, 2, "leaf1", "a100"));
      jobs.push_back(wide(id, name, {0, 1}));
      jobs.back().anchor.front().job = 1000 + id;
      jobs.back().total_steps = id < 10 ? 50 : 3600;
    }
    std::sort(nodes.begin(), nodes.end(), [](const NodeView& a, const NodeView& b) { return a.name < b.name; });
    nodes.push_back(node("n2", 4));
    PlanningInput input = measured(input_of(nodes, jobs));
    for (JobId id = 1; id <= 10; ++id) input.movable.push_back({id, {}});
    const auto scheduler = make_arena_scheduler({}, {});
    CHECK(scheduler->decide(input).empty());
    input.now += 1;
    const auto decisions = scheduler->decide(input);
    REQUIRE(decisions.size() == 1);
    CHECK(moves_base(decisions.front()));
    CHECK(decisions.front().job == 10);
    input.jobs[8].total_steps = 3600;
    CHECK(scale(input).size() == 0);  // the first eight come first
    input.jobs[0].total_steps = input.jobs[1].total_steps = 3600;
    CHECK(scale(input).size() == 1);
  }

  TEST_CASE("a base that moves and a job that grows in one decision take different GPUs") {
    PlanningInput input = slow();
    ElasticJob second = wide(6, "n2", {0, 1}, 4);
    input = input_of({node("n1", 2, "leaf1", "a100"), node("n2", 4), node("n3", 2)}, {input.jobs.front(), second});
    input = measured(std::move(input));
    input.movable = {{5, {}}};
    const auto decisions = scale(input);
    REQUIRE(decisions.size() == 2);
    CHECK(moves_base(decisions[0]));
    CHECK(decisions[0].acquire.front().node == "n2");
    CHECK(decisions[1].kind == DecisionKind::grow);
    REQUIRE(decisions[1].acquire.size() == 1);
    CHECK(decisions[1].acquire.front().node == "n3");
  }

  TEST_CASE("a job does not grow while it must not") {
    PlanningInput input = measured(input_of({node("n1", 8)}, {wide(1, "n1", {0})}));
    ElasticJob& one = input.jobs.front();
    const auto scheduler = make_arena_scheduler({}, {});
    std::string why;
    SUBCASE("it is held") { one.held = true, why = "it is held"; }
    SUBCASE("it has just been changed") { input.last_change[1] = input.now - 1, why = "it was changed a moment ago"; }
    SUBCASE("it is not measured") { one.step_seconds = 0, why = "it was not measured on its present plan yet"; }
    SUBCASE("it has its maximum") {
      one.max_gpus = 1;
      why = "it has the most GPUs that it may have as a power of two";
    }
    SUBCASE("nothing is idle") {
      for (JobId& owner : input.cluster.nodes.front().gpu_owner) owner = owner == 0 ? 9 : owner;
      why = "there are too few idle GPUs of its type to double it";
    }
    SUBCASE("nothing of its type is lent") {
      input.cluster.nodes.front().usable = false;
      why = "no GPUs of its type are lent";
    }
    CHECK(scheduler->decide(input).empty());
    REQUIRE(scheduler->weighed().size() == 1);
    CHECK(scheduler->weighed().front().verdict == why);
  }

  TEST_CASE("no decision of arena breaks a rule, on random clusters") {
    Dice dice{std::mt19937(17)};
    std::map<DecisionKind, int> kinds;
    for (int round = 0; round < 1000; ++round) {
      const PlanningInput input = random_input(dice);
      SchedulerOptions options;
      options.redeploy_seconds = dice.roll(0, 1) == 0 ? 1 : 60;
      const auto decisions = scale(input, options);
      check(input, decisions);
      for (const Decision& d : decisions) {
        CAPTURE(d.reason);
        ++kinds[d.kind];
        const ElasticJob& job = job_of(input, d.job);
        const int basic = basic_of(job), after = held_by(job) + acquired(d) - released(job, d);
        CHECK(after >= basic);
        if (d.kind == DecisionKind::grow) {
          CHECK(std::has_single_bit(static_cast<unsigned>(after)));
          const std::string& own = input.cluster.find(job.anchor.front().node)->gpu_type;
          for (const ExtensionRequest& request : d.acquire) CHECK(input.cluster.find(request.node)->gpu_type == own);
          CHECK((job.step_seconds / d.predicted_step_seconds - 1) * options.idle_seconds > options.redeploy_seconds);
        }
      }
    }
    CHECK(kinds[DecisionKind::grow] > 50);
    CHECK(kinds[DecisionKind::shrink] > 50);
  }

  TEST_CASE("GPUs that a waiting job needs are never lent") {
    Dice dice{std::mt19937(19)};
    int grown = 0;
    for (int round = 0; round < 500; ++round) {
      PlanningInput input = random_input(dice);
      const int idle = input.cluster.nodes.front().idle_gpus();
      if (idle == 0 || !input.cluster.nodes.front().usable) continue;
      const int wanted = dice.roll(1, idle);
      input.cluster.waiting = {{9000, wanted, 1, {"n0"}, {}, 1}};
      for (const Decision& d : scale(input)) {
        int taken = 0;
        for (const ExtensionRequest& request : d.acquire) taken += request.node == "n0" ? request.gpus : 0;
        CHECK(taken <= idle - wanted);
        grown += taken > 0;
      }
    }
    CHECK(grown > 5);
  }

  TEST_CASE("the order in which things are told changes no decision of arena, nor what it remembers") {
    Dice dice{std::mt19937(23)};
    const auto remembering = make_arena_scheduler({}, {});
    for (int round = 0; round < 200; ++round) {
      PlanningInput input = random_input(dice);
      const Json before = scale(input);
      CHECK(Json(remembering->decide(input)) == before);
      CHECK(Json(remembering->decide(input)) == before);
      std::shuffle(input.cluster.waiting.begin(), input.cluster.waiting.end(), dice.engine);
      std::shuffle(input.jobs.begin(), input.jobs.end(), dice.engine);
      CHECK(Json(scale(input)) == before);
    }
  }
}
