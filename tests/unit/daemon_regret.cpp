// A growth that makes steps slower is taken back.
#include <doctest/doctest.h>

#include "planner/daemon/growth_regret.hpp"
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
  const auto back = taken_back(grown.before, grown.now, 20, {{"n1", 1.0}, {"n2", 0.55}});
  REQUIRE(back);
  CHECK(back->kind == DecisionKind::shrink);
  CHECK(back->job == 10);
  CHECK(back->release == std::vector<JobId>{21});
  CHECK(back->plan == grown.before.plan);
  CHECK(back->predicted_step_seconds == 0.5);
  CHECK(back->reason ==
        "steps take 0.9 s since decision 7, and took 0.5 s before it: its GPUs on n2 are given back; n2 computes at 55% "
        "of its like");
  CHECK(nodes_left(grown.now, *back) == std::vector<std::string>{"n2"});
}

TEST_CASE("a growth that pays, or of which too little is known, is kept") {
  Grown grown;
  const auto kept = [&](std::int64_t steps) { return !taken_back(grown.before, grown.now, steps, {}); };
  CHECK(kept(9));
  CHECK_FALSE(kept(10));  // far slower
  grown.now.step_seconds = 0.6;
  CHECK(kept(19));  // a little slower: more steps are awaited
  CHECK_FALSE(kept(20));
  grown.now.step_seconds = 0.52;
  CHECK(kept(20));
  grown.now.step_seconds = 0;
  CHECK(kept(20));
}

TEST_CASE("extensions from before the growth stay, and no way leads back without all GPUs of the plan before") {
  Grown grown;
  grown.now.extensions.push_back({18, "n2", {2}});
  grown.before.extensions = {18};
  grown.before.plan = uniform_plan(3, 1, 12, 16, 4, {{"n1", 0}, {"n1", 1}, {"n2", 2}});
  CHECK(taken_back(grown.before, grown.now, 20, {})->release == std::vector<JobId>{21});
  grown.now.extensions.pop_back();  // Slurm took it
  CHECK_FALSE(taken_back(grown.before, grown.now, 20, {}));
  grown.now.extensions.clear();
  CHECK_FALSE(taken_back(grown.before, grown.now, 20, {}));
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

TEST_CASE("a job that grew and got slower gets its old plan back, and nothing for a while on those nodes") {
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
  grown.step = 90;
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
