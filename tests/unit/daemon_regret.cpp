// A growth that makes steps slower is taken back.
#include <doctest/doctest.h>

#include "planner/daemon/growth_regret.hpp"
#include "planner/daemon/sqlite.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// A job on n1/0-1 that has grown onto n2.
struct Grown {
  ElasticJob now = [] {
    auto result = job(10, "n1", {0, 1});
    result.extensions = {{21, "n2", {0, 1}}};
    result.plan = uniform_plan(2, 2, 12, 16, 4, {{"n1", 0}, {"n1", 1}, {"n2", 0}, {"n2", 1}});
    result.step_seconds = 0.9;
    return result;
  }();
  BeforeGrowth before{7, uniform_plan(2, 1, 12, 16, 4, {{"n1", 0}, {"n1", 1}}), 0.5, {}};
};

}  // namespace

TEST_CASE("a growth that makes steps slower is taken back to the plan before it") {
  const Grown grown;
  const auto back = taken_back(grown.before, grown.now, 20, {{"n2", 0.55}}, 5);
  REQUIRE(back);
  CHECK(back->kind == DecisionKind::shrink);
  CHECK(back->job == 10);
  CHECK(back->release == std::vector<JobId>{21});
  CHECK(back->plan == grown.before.plan);
  CHECK(back->predicted_step_seconds == 0.5);
  CHECK(
      back->reason ==
      "steps take 0.9 s since decision 7, and took 0.5 s before it: its GPUs on n2 are given back; n2 computes at 55% "
      "of its like");
  CHECK(nodes_left(grown.now, *back) == std::vector<std::string>{"n2"});
}

TEST_CASE("a growth that pays, or of which too little is known, is kept") {
  Grown grown;
  const auto kept = [&](std::int64_t steps) { return !taken_back(grown.before, grown.now, steps, {}, 5); };
  CHECK(kept(9));
  CHECK_FALSE(kept(10));  // far slower
  grown.now.step_seconds = 0.6;
  CHECK(kept(19));  // a little slower: more steps are awaited
  CHECK_FALSE(kept(20));
  grown.now.step_seconds = 0.52;
  CHECK(kept(20));
  grown.now.step_seconds = 0;
  CHECK(kept(20));
  grown.now.step_seconds = 50;
  CHECK_FALSE(taken_back(grown.before, grown.now, 20, {}, 0));  // the site wants none to be
}

TEST_CASE("extensions from before the growth stay, and no way leads back without all GPUs of the plan before") {
  Grown grown;
  grown.now.extensions.push_back({18, "n2", {2}});
  grown.before.extensions = {18};
  grown.before.plan = uniform_plan(3, 1, 12, 16, 4, {{"n1", 0}, {"n1", 1}, {"n2", 2}});
  CHECK(taken_back(grown.before, grown.now, 20, {}, 5)->release == std::vector<JobId>{21});
  grown.now.extensions.pop_back();  // Slurm took it
  CHECK_FALSE(taken_back(grown.before, grown.now, 20, {}, 5));
  grown.now.extensions.clear();
  CHECK_FALSE(taken_back(grown.before, grown.now, 20, {}, 5));
}

TEST_CASE("another plan on the same GPUs does not end the trial of a growth, other changes do") {
  Decision decision;
  decision.kind = DecisionKind::migrate;
  CHECK(replans(decision));
  decision.release = {21};
  CHECK_FALSE(replans(decision));
  decision.release.clear();
  decision.acquire = {{"n2", 1, 1, 1, 60}};
  CHECK_FALSE(replans(decision));
  decision = {};
  for (const DecisionKind kind : {DecisionKind::shrink, DecisionKind::recover, DecisionKind::start}) {
    decision.kind = kind;
    CHECK_FALSE(replans(decision));
  }
}

TEST_CASE("without a measured step, or a plan, nothing is remembered of the time before a growth") {
  Grown grown;
  CHECK(before_growth(grown.now, 8)->extensions == std::vector<JobId>{21});
  grown.now.step_seconds = 0;
  CHECK_FALSE(before_growth(grown.now, 8));
  grown.now.step_seconds = 1;
  grown.now.plan.reset();
  CHECK_FALSE(before_growth(grown.now, 8));
}

TEST_CASE("a node that one job finds slow is named, and no other job of that user grows onto it") {
  Daemon daemon;
  daemon.slurm_says([](SlurmSnapshot& slurm) {
    slurm.cluster.nodes.push_back(node("n3", 4));
    run_job(slurm, slurm_job(21, 1000, {{21, "n2", {0, 1}}}, "espalier:ext:10:ab"));
    for (const JobId id : {11u, 12u})
      run_job(slurm, slurm_job(id, id == 11 ? 1000 : 1001, {{id, "n3", {static_cast<int>(id) - 11}}}));
  });
  auto slowed = job(10, "n1", {0, 1});
  slowed.extensions = {{21, "n2", {0, 1}}};
  slowed.plan = {4, 1, {{8, 1, {{2, {{"n1", 0}}}, {2, {{"n2", 0}}}}}}};
  slowed.held = true;
  Profile profile;
  profile.plan = *slowed.plan;
  profile.shape = slowed.model;
  profile.steps = 8;
  profile.step = 9;
  for (const int replica : {0, 1}) {
    ReplicaProfile one;
    one.replica = replica, one.fwd = replica == 0 ? 10 : 20, one.bwd = 2 * one.fwd, one.sync = 1, one.spread = 0.01;
    profile.replicas.push_back(one);
  }
  const auto link = daemon.connect(1000);
  link->says(wire::Register{slowed, "n1", 1});
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  daemon.planner->hold(10, true);
  slowed.profile = profile;
  link->says(wire::Status{slowed});
  REQUIRE(daemon.planner->view()->slow.contains("n2"));
  CHECK(daemon.planner->view()->slow.at("n2").share == doctest::Approx(0.5));
  CHECK(daemon.planner->view()->slow.at("n2").jobs == 1);
  // Both may grow onto n1 and n2. The job of the same user leaves n2 alone.
  const auto kept = nodes_of_growth(daemon, 11, 1000, "n3");
  CHECK_FALSE(kept.empty());
  CHECK_FALSE(kept.contains("n2"));
  CHECK(nodes_of_growth(daemon, 12, 1001, "n3").contains("n2"));
}

TEST_CASE("a job that grew and got slower gets its old plan back, and nothing for a while on those nodes") {
  for (const std::string meanwhile : {"nothing", "another plan on the same GPUs", "the store is full"}) {
    CAPTURE(meanwhile);
    Daemon daemon;
    const auto link = daemon.launcher();
    REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
    const Decision growth = link->got<wire::Propose>()->decision;
    REQUIRE(growth.kind == DecisionKind::grow);
    const LiveJob& live = daemon.planner->jobs().at(10);
    const double before = live.job.step_seconds;
    const Plan plan = *live.job.plan;
    REQUIRE(before > 0);

    // Slurm grants what was asked for.
    auto grown = job(10, "n1", {0, 1});
    JobId next = 40;
    daemon.slurm_says([&](SlurmSnapshot& slurm) {
      for (const ExtensionRequest& request : growth.acquire) {
        std::vector<int> gpus;
        for (const GpuId& gpu : growth.plan.ranks())
          if (gpu.node == request.node && !(gpu.node == "n1" && gpu.index < 2)) gpus.push_back(gpu.index);
        run_job(slurm, slurm_job(next, 1000, {{next, request.node, gpus}}, "espalier:ext:10:ab"));
        grown.extensions.push_back({next, request.node, gpus});
        ++next;
      }
    });
    REQUIRE(!grown.extensions.empty());
    grown.plan = growth.plan;
    grown.generation = 1;
    grown.step = 50;
    link->says(outcome_of(growth, "committed"));
    grown.step_seconds = before * 1.5;
    grown.step = 55;
    link->says(wire::Status{grown});
    CHECK_FALSE(live.open);
    if (meanwhile == "another plan on the same GPUs") {
      Decision other;
      other.id = growth.id + 1;
      other.job = 10;
      other.kind = DecisionKind::migrate;
      other.plan = *grown.plan;
      DecisionRecord record;
      record.decision = other;
      record.uid = 1000;
      REQUIRE(daemon.store.add(record) == other.id);
      link->says(outcome_of(other, "committed", 2));
      grown.generation = 2;
      grown.step = 56;
      link->says(wire::Status{grown});
      CHECK(live.before_growth);
    }
    grown.step = 90;
    if (meanwhile == "the store is full") {
      Database(daemon.folder.file("test.db"))
          .execute("CREATE TRIGGER no_room BEFORE INSERT ON decisions BEGIN SELECT RAISE(FAIL, 'disk is full'); END");
      link->says(wire::Status{grown});
      CHECK_FALSE(link->closed);
      CHECK_FALSE(live.open);
      CHECK(live.avoided.empty());
      CHECK(live.regrets == 0);
      continue;
    }
    link->says(wire::Status{grown});
    REQUIRE(daemon.until([&] { return link->got<wire::Propose>()->decision.kind == DecisionKind::shrink; }));
    const Decision back = link->got<wire::Propose>()->decision;
    CHECK(back.plan == plan);
    CHECK(back.release.size() == grown.extensions.size());
    CHECK(back.reason.find("steps take") == 0);
    CHECK(daemon.store.decision(back.id)->decision.trigger == Trigger::profile_ready);
    CHECK(live.avoided.size() == growth.acquire.size());
    CHECK(live.grow_not_before > 0);
    CHECK(live.regrets == 1);
  }
}
