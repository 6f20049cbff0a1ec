#include <doctest/doctest.h>

#include "planner/core/schedule/planning_basis.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/wire/start_messages.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

ElasticJob launching() {
  ElasticJob one = job(10, "n1", {0, 1});
  one.plan.reset();
  one.parallel = {};
  one.phase = JobPhase::launching;
  one.step_seconds = 0;
  return one;
}

std::shared_ptr<TestLink> launcher_of(Daemon& daemon, const ElasticJob& one) {
  auto link = daemon.connect(1000);
  link->says(wire::Register{one, "n1", 1});
  return link;
}

}  // namespace

TEST_CASE("a launcher that has no plan yet is sent one for generation 0, after what is known of its GPUs") {
  Daemon daemon;
  const auto link = launcher_of(daemon, launching());
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  const Decision decision = link->got<wire::Propose>()->decision;
  CHECK(decision.kind == DecisionKind::start);
  CHECK(decision.trigger == Trigger::job_started);
  CHECK(decision.acquire.empty());
  CHECK(decision.predicted_step_seconds == 0);  // of data sheets nothing is promised
  CHECK(validate(decision.plan, 8).empty());
  CHECK(decision.plan.ranks().front() == GpuId{"n1", 0});
  const auto known = link->got<wire::Known>();
  REQUIRE(known);
  const PlanningBasis knowledge = basis_from(known->basis);
  CHECK(knowledge.site.topology.find("n1") >= 0);
  CHECK(knowledge.site.topology.find("n2") == -1);
  CHECK_FALSE(knowledge.coefficients);
  const auto record = daemon.store.decision(decision.id);
  REQUIRE(record);
  CHECK(record->decision.candidates.size() > 1);
  daemon.pass(250);
  CHECK(daemon.store.decisions(10, 10).size() == 1);  // asked for once
  link->says(outcome_of(decision, "committed"));
  CHECK(daemon.store.decision(decision.id)->decision.outcome == "committed");
}

TEST_CASE("launchers of many new jobs of one user all get plans, and the loop answers others in between") {
  Daemon daemon;
  constexpr int kJobs = 150;
  daemon.slurm_says([](SlurmSnapshot& slurm) {
    for (int n = 3; n < 3 + kJobs; ++n) {
      const std::string name = "n" + std::to_string(n);
      slurm.cluster.nodes.push_back(node(name, 8));
      run_job(slurm, slurm_job(100 + static_cast<JobId>(n), 1000,
                               {{100 + static_cast<JobId>(n), name, {0, 1, 2, 3, 4, 5, 6, 7}}}));
    }
    std::sort(slurm.cluster.nodes.begin(), slurm.cluster.nodes.end(),
              [](const NodeView& a, const NodeView& b) { return a.name < b.name; });
  });
  std::vector<std::shared_ptr<TestLink>> links;
  for (int n = 3; n < 3 + kJobs; ++n) {
    ElasticJob one = launching();
    one.id = 100 + static_cast<JobId>(n);
    one.anchor = {{one.id, "n" + std::to_string(n), {0, 1, 2, 3, 4, 5, 6, 7}}};
    one.model.layers = 60;
    links.push_back(launcher_of(daemon, one));
  }
  // A timer that is due every 5 ms runs between the plans.
  double last = clock_seconds(), longest = 0;
  const auto planned = [&] {
    return std::count_if(links.begin(), links.end(),
                         [](const auto& link) { return link->template got<wire::Propose>().has_value(); });
  };
  int between = 0;
  const auto ticks = daemon.loop.every(std::chrono::milliseconds(5), [&] {
    longest = std::max(longest, clock_seconds() - std::exchange(last, clock_seconds()));
    between += planned() > 0 && planned() < kJobs;
  });
  const double begin = clock_seconds();
  for (int tries = 0; tries < 60 && planned() < kJobs; ++tries) daemon.pass(500);
  CHECK(planned() == kJobs);
  CHECK(between > 0);
  MESSAGE(kJobs, " plans took ", clock_seconds() - begin, " s; the loop was busy for at most ", longest, " s");
}

TEST_CASE("the launcher of a job with a deadline is told when it would end, before its plan") {
  Daemon daemon;
  ElasticJob one = launching();
  one.deadline = clock_seconds() + 3600;
  SUBCASE("with steps") { one.total_steps = 1000; }
  SUBCASE("without steps") {}
  const auto link = launcher_of(daemon, one);
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  const auto told = link->got<wire::DeadlineChecked>();
  REQUIRE(told);
  CHECK(told->refuses_late);
  CHECK(told->known == (one.total_steps > 0));
  const Decision decision = link->got<wire::Propose>()->decision;
  if (!told->known) {
    CHECK(decision.objective.empty());
    return;
  }
  CHECK(!told->forecast.measured);
  CHECK(told->forecast.own_end > clock_seconds());
  CHECK(told->forecast.best_end <= told->forecast.own_end);
  CHECK(decision.objective.find(" to its deadline: ") != std::string::npos);
  CHECK(decision.objective.find("by the GPUs' data sheets") != std::string::npos);
}

TEST_CASE("a deadline is not admitted on GPUs that the site keeps from the job") {
  Daemon daemon;
  int most = 8;
  PlannerSettings settings;
  settings.partition = "elastic";
  settings.poll_seconds = 0.1;
  SUBCASE("all may be had") {}
  SUBCASE("a rule keeps its node's other GPUs and those of the other node") {
    settings.rules.share.rules = {{"chemistry's", "n[1-2]", {}, {"chemistry"}, {}, {}}};
    most = 2;
  }
  SUBCASE("a rule keeps the other node") {
    settings.rules.share.rules = {{"chemistry's", "n2", {}, {"chemistry"}, {}, {}}};
    most = 4;
  }
  SUBCASE("Slurm would not take extensions back") {
    daemon.slurm_says([](SlurmSnapshot& slurm) { slurm.preemption.lends = false; });
    most = 2;
  }
  daemon.planner->configure(settings);
  ElasticJob one = launching();
  one.total_steps = 1000;
  one.model.layers = 64;
  one.deadline = clock_seconds() + 3600;
  const auto link = launcher_of(daemon, one);
  REQUIRE(daemon.until([&] { return link->got<wire::DeadlineChecked>().has_value(); }));
  const DeadlineForecast forecast = link->got<wire::DeadlineChecked>()->forecast;
  CHECK(forecast.own_gpus == 2);
  CHECK(forecast.best_gpus <= most);
  if (most > 2) CHECK(forecast.best_gpus > most / 2);
  CHECK(forecast.least_end <= forecast.best_end);
  CHECK(forecast.least_end > clock_seconds());
}

TEST_CASE("a job without a deadline is told nothing of one") {
  Daemon daemon;
  const auto link = launcher_of(daemon, launching());
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  CHECK_FALSE(link->got<wire::DeadlineChecked>());
}

TEST_CASE("a program that told its shape late gets a plan on all its ranks in their order") {
  Daemon daemon;
  ElasticJob one = launching();
  const ModelShape shape = std::exchange(one.model, {});
  const auto link = launcher_of(daemon, one);
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  daemon.pass(100);
  CHECK_FALSE(link->got<wire::Propose>());
  one.model = shape;
  one.ranks_run = true;
  link->says(wire::Status{one});
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  CHECK(link->got<wire::Propose>()->decision.plan.ranks() == std::vector<GpuId>{{"n1", 0}, {"n1", 1}});
}

TEST_CASE("statuses of a job without a plan make no plans themselves: it is planned once, when Slurm has answered") {
  Daemon daemon;
  ElasticJob one = launching();
  const ModelShape shape = std::exchange(one.model, {});
  const auto link = launcher_of(daemon, one);
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  one.model = shape;
  const auto report = [&](int times) {
    for (int i = 0; i < times; ++i) link->says(wire::Status{one});
  };
  SUBCASE("one that can be planned") {
    report(200);
    CHECK_FALSE(link->got<wire::Propose>());
    REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
    report(200);
    daemon.pass(300);
    CHECK(daemon.store.decisions(10, 10).size() == 1);
  }
  SUBCASE("one that cannot be planned yet: each of its statuses asks again, and a user may ask now and then") {
    daemon.slurm_says([](SlurmSnapshot& slurm) { slurm.jobs.at(10).suspended = true; });
    const int before = daemon.asked();
    const auto often = daemon.loop.every(std::chrono::milliseconds(2), [&] { report(5); });
    daemon.pass(500);
    CHECK(daemon.asked() - before < 20);  // the timer's five, a burst of five, and one under way
    CHECK(daemon.store.decisions(10, 10).empty());
  }
}

TEST_CASE("a model that fits nowhere gets no plan, and its launcher need not wait for one") {
  Daemon daemon;
  ElasticJob one = launching();
  one.model.hidden = 1 << 20;
  const auto link = launcher_of(daemon, one);
  REQUIRE(daemon.until([&] { return link->got<wire::Unplanned>().has_value(); }));
  CHECK(link->got<wire::Unplanned>()->reason.find("GB") != std::string::npos);
  CHECK_FALSE(link->got<wire::Propose>());
}

TEST_CASE("in shadow mode the plan is recorded, and the launcher chooses its own at once") {
  Daemon daemon(true);
  const auto link = launcher_of(daemon, launching());
  REQUIRE(daemon.until([&] { return link->got<wire::Unplanned>().has_value(); }));
  CHECK_FALSE(link->got<wire::Propose>());
  REQUIRE(daemon.store.decisions(10, 10).size() == 1);
  CHECK(daemon.store.decisions(10, 10).front().decision.kind == DecisionKind::start);
  CHECK(daemon.store.decisions(10, 10).front().decision.outcome == "shadow");
}

TEST_CASE("in shadow mode no deadline is refused: the launcher only tells the forecast, which is recorded") {
  Daemon daemon(true);
  REQUIRE(daemon.planner->settings().refuses_late_deadlines);
  ElasticJob one = launching();
  one.total_steps = 1000;
  one.deadline = clock_seconds() + 1;
  const auto link = launcher_of(daemon, one);
  REQUIRE(daemon.until([&] { return link->got<wire::Unplanned>().has_value(); }));
  const auto told = link->got<wire::DeadlineChecked>();
  REQUIRE(told);
  CHECK(told->known);
  CHECK_FALSE(told->refuses_late);
  REQUIRE(daemon.store.decisions(10, 10).size() == 1);
  CHECK(daemon.store.decisions(10, 10).front().decision.objective.find(" to its deadline: ") != std::string::npos);
}
