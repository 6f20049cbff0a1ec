// Decisions are made on a thread of their own: what changes meanwhile, and which decisions are dropped then.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "planner/daemon/decision_check.hpp"
#include "planner/daemon/planning_input.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// A scheduler that does not come to an end before the test lets it.
struct Stopped {
  std::atomic<bool> inside{false}, go_on{false};

  PlannerSettings settings(const Planner& planner) {
    PlannerSettings settings = planner.settings();
    settings.scheduler.discount = [this](const ElasticJob&) {
      inside = true;
      while (!go_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return 1.0;
    };
    return settings;
  }
};

// Job 10 as the planner may have weighed it.
struct Case {
  PlanningInput input;
  std::map<JobId, LiveJob> jobs;
  SlurmSnapshot slurm;
  Decision decision;

  Case() {
    slurm.cluster.nodes = {node("n1", 4), node("n2", 4)};
    run_job(slurm, slurm_job(10, 1000, {{10, "n1", {0, 1}}}));
    LiveJob& live = jobs[10];
    live.job = job(10, "n1", {0, 1});
    live.job.uid = 1000;
    live.link = std::make_shared<TestLink>(1000);
    input.now = slurm.time = 1000;
    input.jobs = {confirmed(live.job, slurm, 64)};
    decision.job = 10;
    decision.kind = DecisionKind::grow;
    decision.acquire = {{"n2", 2, 1, 1, 60}};
  }
  std::string why(const std::set<std::string>& promised = {}) const {
    return out_of_date(decision, input, jobs, slurm, 64, promised);
  }
};

std::vector<std::string> outcomes(Store& store) {
  std::vector<std::string> list;
  for (const auto& record : store.decisions(10, 10)) list.push_back(record.decision.outcome);
  return list;
}

}  // namespace

TEST_CASE("a decision is out of date when what it relied on has changed") {
  Case one;
  REQUIRE(one.why().empty());
  LiveJob& live = one.jobs[10];
  SUBCASE("the step goes on: it is not") {
    live.job.step += 100;
    live.job.step_seconds *= 1.1;
    CHECK(one.why().empty());
  }
  SUBCASE("the job has gone") {
    one.jobs.clear();
    CHECK(one.why() == "the job has ended");
  }
  SUBCASE("another job has its number") {
    one.input.jobs.clear();
    CHECK(one.why() == "the job has ended");
  }
  SUBCASE("the launcher is away") {
    live.link.reset();
    CHECK(one.why() == "its launcher is no longer connected");
  }
  SUBCASE("another decision came first") {
    live.open.emplace();
    live.open->decision.id = 7;
    CHECK(one.why() == "decision 7 is under way");
  }
  SUBCASE("a new generation") {
    ++live.job.generation;
    CHECK(one.why() == "the job has been reconfigured");
  }
  SUBCASE("another phase") {
    live.job.phase = JobPhase::recovering;
    CHECK(one.why() == "the job has been reconfigured");
  }
  SUBCASE("no plan any more") {
    live.job.plan.reset();
    CHECK(one.why() == "the job has been reconfigured");
  }
  SUBCASE("held") {
    live.job.held = true;
    CHECK(one.why() == "the job has been held");
  }
  SUBCASE("an extension more") {
    run_job(one.slurm, slurm_job(20, 1000, {{20, "n2", {0}}}, "espalier:ext:10:0123abcd"));
    live.job.extensions = {{20, "n2", {0}}};
    CHECK(one.why() == "the job holds other GPUs");
  }
  SUBCASE("an extension that only the launcher speaks of: it was not counted on") {
    live.job.extensions = {{21, "n2", {0}}};
    CHECK(one.why().empty());
  }
  SUBCASE("its workers have died on a GPU") {
    live.job.unfit = {{"n2", 0}};
    CHECK(one.why() == "its workers have died on other GPUs");
  }
  SUBCASE("its maximum is lower") {
    live.job.max_gpus = 2;
    one.decision.plan = uniform_plan(4, 1, 8, 4, 4, {{"n1", 0}, {"n1", 1}, {"n2", 0}, {"n2", 1}});
    CHECK(one.why() == "it may have 2 GPUs at most now");
  }
  SUBCASE("a base that is a single replica moves by way of a plan on both bases, beyond its maximum") {
    live.job.max_gpus = 2;
    live.job.plan = one.input.jobs.front().plan = Plan{4, 4, {{8, 2, {{4, {{"n1", 0}, {"n1", 1}}}}}}};
    one.decision.kind = DecisionKind::migrate;
    one.decision.acquire = {{"n2", 2}};
    one.decision.plan = Plan{4, 2, {{8, 2, {{2, {{"n2", 0}, {"n2", 1}}}, {2, {{"n1", 0}, {"n1", 1}}}}}}};
    CHECK(one.why().empty());
    one.decision.kind = DecisionKind::grow;
    CHECK(one.why() == "it may have 2 GPUs at most now");
  }
  SUBCASE("a failure since") {
    live.not_before = 1001;
    CHECK(one.why() == "an earlier decision about the job has failed");
  }
  SUBCASE("a failure since, of another change than the shrink that is decided") {
    live.not_before = 1001;
    one.decision.kind = DecisionKind::shrink;
    CHECK(one.why().empty());
    live.failed_to_shrink = true;
    CHECK(one.why() == "an earlier decision about the job has failed");
  }
  SUBCASE("GPUs that another job was promised") {
    LiveJob& other = one.jobs[11];
    other.open.emplace();
    other.open->decision.time = 1000.5;
    other.open->decision.acquire = {{"n2", 1, 1, 1, 60}};
    CHECK(promised_since(one.jobs, 1000.6).empty());
    CHECK(one.why(promised_since(one.jobs, 1000)) == "GPUs of node n2 have been promised to another job");
  }
}

TEST_CASE("while a decision is made the loop answers, and a hold in between drops it; then it is made anew") {
  Stopped stopped;  // outlives the planner
  Daemon daemon;
  daemon.planner->configure(stopped.settings(*daemon.planner));
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return stopped.inside.load(); }));
  const auto ping = daemon.connect(1001);
  ping->says(wire::Query{"ping", Json::object()});
  CHECK(ping->got<wire::Reply>());
  daemon.planner->hold(10, true);
  stopped.go_on = true;
  REQUIRE(daemon.until(
      [&] { return outcomes(daemon.store) == std::vector<std::string>{"dropped: the job has been held"}; }));
  CHECK_FALSE(link->got<wire::Propose>());
  daemon.planner->hold(10, false);
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
}

TEST_CASE("settings that are read again while a decision is made drop it") {
  Stopped stopped;  // outlives the planner
  Daemon daemon;
  const PlannerSettings plain = daemon.planner->settings();
  daemon.planner->configure(stopped.settings(*daemon.planner));
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return stopped.inside.load(); }));
  daemon.planner->configure(plain);
  stopped.go_on = true;
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  CHECK(outcomes(daemon.store) == std::vector<std::string>{"", "dropped: the settings have been read again"});
}

TEST_CASE("a job that ends and a launcher that leaves while a decision is made get no proposal") {
  Stopped stopped;  // outlives the planner
  Daemon daemon;
  daemon.planner->configure(stopped.settings(*daemon.planner));
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return stopped.inside.load(); }));
  SUBCASE("it ends") { link->says(wire::Bye{10, 0}); }
  SUBCASE("it leaves") {
    const auto closed = link->on_closed;
    closed("gone");
  }
  stopped.go_on = true;
  daemon.pass(50);
  CHECK_FALSE(link->got<wire::Propose>());
}

TEST_CASE("a planner that ends while a decision is made waits for it and calls nobody") {
  Stopped stopped;  // outlives the planner
  Daemon daemon;
  daemon.planner->configure(stopped.settings(*daemon.planner));
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return stopped.inside.load(); }));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stopped.go_on = true;
  });
  daemon.gate.reset();
  daemon.planner.reset();
  later.join();
  daemon.pass(20);
  CHECK_FALSE(link->got<wire::Propose>());
}
