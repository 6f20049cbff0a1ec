#include <doctest/doctest.h>

#include "planner/wire/grant_message.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

TEST_CASE("a registered launcher is proposed a growth, and its outcome completes the record") {
  Daemon daemon;
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  CHECK(link->got<wire::Registered>());
  const Decision decision = link->got<wire::Propose>()->decision;
  CHECK(decision.kind == DecisionKind::grow);
  CHECK(decision.id > 0);
  auto record = daemon.store.decision(decision.id);
  REQUIRE(record);
  CHECK(record->decision.outcome.empty());
  CHECK(record->decision.candidates.size() >= 4);
  CHECK(record->moments.contains("decided"));

  daemon.pass(250);  // no second one while this one is under way
  CHECK(daemon.store.decisions(10, 10).size() == 1);

  link->says(outcome_of(decision, "committed"));
  auto grown = job(10, "n1", {0, 1});
  grown.plan = decision.plan;
  grown.generation = 1;
  grown.step = 55;
  grown.step_seconds = 0.6;
  grown.held = true;
  link->says(wire::Status{grown});
  record = daemon.store.decision(decision.id);
  CHECK(record->decision.outcome == "committed");
  CHECK(record->decision.pause_ms == 12);
  CHECK(record->decision.measured_step_seconds == doctest::Approx(0.6));
  CHECK(record->phases_ms.at("acquire") == 100);
  CHECK(record->generation == 1);
  CHECK_FALSE(daemon.planner->jobs().at(10).job.held);  // users decide that, not the launcher
}

TEST_CASE("what a job's reconfigurations cost is learnt from those that were committed, also across a restart") {
  Daemon daemon(true);
  auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  CHECK_FALSE(daemon.planner->jobs().at(10).pause_seconds);
  const auto paused = [&](double milliseconds, const std::string& result, const char* phase = "load") {
    Decision own;
    own.job = 10;
    own.kind = DecisionKind::shrink;
    own.plan = *job(10, "n1", {0}).plan;
    auto outcome = outcome_of(own, result);
    outcome.pause_ms = milliseconds;
    outcome.phases_ms[phase] = milliseconds;
    link->says(outcome);
  };
  for (const double milliseconds : {9000, 100, 200, 600}) paused(milliseconds, "committed");
  paused(1, "committed", "in_place");  // it tells nothing of a change of generation
  paused(5000, "aborted: no extension");
  CHECK(daemon.planner->jobs().at(10).pause_seconds == doctest::Approx(0.3));  // of the last three
  daemon.start(true);
  link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  CHECK(daemon.planner->jobs().at(10).pause_seconds == doctest::Approx(0.3));
}

TEST_CASE("the scheduler's last word on a job can be asked for") {
  Daemon daemon;
  daemon.slurm_says([](SlurmSnapshot& slurm) {
    run_job(slurm, slurm_job(77, 5, {{77, "n1", {2, 3}}, {77, "n2", {0, 1, 2, 3}}}));
  });
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return daemon.planner->view()->weighed_job(10) != nullptr; }));
  const auto view = daemon.planner->view();
  CHECK(view->weighed_job(10)->verdict == "there are no idle GPUs for it");
  CHECK(view->weighed_job(11) == nullptr);
}

TEST_CASE("a change that is at a boundary has longer than one that still prepares") {
  Daemon daemon;
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  const auto id = link->got<wire::Propose>()->decision.id;
  PlannerSettings hasty = daemon.planner->settings();
  hasty.outcome_seconds = 0.2;
  hasty.boundary_seconds = 60;
  auto busy = job(10, "n1", {0, 1});
  for (const JobPhase phase : {JobPhase::ready, JobPhase::switching, JobPhase::saving, JobPhase::restarting}) {
    CAPTURE(to_string(phase));
    busy.phase = phase;
    link->says(wire::Status{busy});
    daemon.planner->configure(hasty);
    daemon.pass(300);
    CHECK(daemon.store.decision(id)->decision.outcome.empty());
  }
  busy.phase = JobPhase::starting;
  link->says(wire::Status{busy});
  CHECK(daemon.until([&] { return !daemon.store.decision(id)->decision.outcome.empty(); }));
}

TEST_CASE("a failed decision is not repeated at once") {
  Daemon daemon;
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  link->says(outcome_of(link->got<wire::Propose>()->decision, "aborted: no extension", 0));
  daemon.pass(400);
  CHECK(daemon.store.decisions(10, 10).size() == 1);
  CHECK(daemon.store.decisions(10, 10)[0].decision.outcome == "aborted: no extension");
}

TEST_CASE(
    "a proposal that was lost with the connection is closed when the launcher, back, says that it runs as before") {
  Daemon daemon;
  auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  const auto id = link->got<wire::Propose>()->decision.id;
  SUBCASE("it says nothing of the kind") {
    link->says(wire::Status{job(10, "n1", {0, 1})});
    CHECK(daemon.store.decision(id)->decision.outcome.empty());
  }
  SUBCASE("it carries the proposal out") {
    link->on_closed("reset");
    link = daemon.launcher();
    REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
    auto busy = job(10, "n1", {0, 1});
    busy.phase = JobPhase::acquiring;
    link->says(wire::Status{busy});
    CHECK(daemon.store.decision(id)->decision.outcome.empty());
    // The outcome comes with the new generation's first step, which is not done yet.
    busy.phase = JobPhase::running;
    busy.generation = 1;
    link->says(wire::Status{busy});
    CHECK(daemon.store.decision(id)->decision.outcome.empty());
  }
  SUBCASE("it never heard of it, and runs another generation after a loss") {
    link->on_closed("reset");
    link = daemon.launcher();
    REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
    auto recovered = job(10, "n1", {0, 1});
    Decision own;
    own.job = 10;
    own.kind = DecisionKind::recover;
    own.plan = *recovered.plan;
    auto outcome = outcome_of(own, "committed");
    outcome.generation = 1;
    link->says(outcome);
    CHECK(daemon.store.decision(id)->decision.outcome.empty());
    recovered.generation = 1;
    link->says(wire::Status{recovered});
    CHECK(daemon.store.decision(id)->decision.outcome == "aborted: lost with the launcher's connection");
  }
  SUBCASE("it never heard of it, and changed to another generation by itself meanwhile") {
    link->on_closed("reset");
    link = daemon.launcher();
    REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
    auto changed = job(10, "n1", {0, 1});
    changed.generation = 1;
    link->says(wire::Status{changed});
    CHECK(daemon.store.decision(id)->decision.outcome.empty());
    // The launcher reports the outcome of a new generation before its first step.
    ++changed.step;
    link->says(wire::Status{changed});
    CHECK(daemon.store.decision(id)->decision.outcome == "aborted: lost with the launcher's connection");
  }
  SUBCASE("it never heard of it") {
    link->on_closed("reset");
    link = daemon.launcher();
    REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
    CHECK(daemon.store.decision(id)->decision.outcome.empty());
    link->says(wire::Status{job(10, "n1", {0, 1})});
    CHECK(daemon.store.decision(id)->decision.outcome == "aborted: lost with the launcher's connection");
  }
}

TEST_CASE("a loss from before a lost proposal, told again after it, does not keep it open") {
  Daemon daemon;
  auto recovered = job(10, "n1", {0, 1});
  recovered.generation = 2;
  const auto registers = [&] {
    auto link = daemon.connect(1000);
    link->says(wire::Register{recovered, "n1", 1});
    return link;
  };
  auto link = registers();
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  const auto id = link->got<wire::Propose>()->decision.id;
  link->on_closed("reset");
  link = registers();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  Decision own;
  own.job = 10;
  own.kind = DecisionKind::recover;
  own.plan = *recovered.plan;
  link->says(outcome_of(own, "committed", 1));
  CHECK(daemon.store.decision(id)->decision.outcome.empty());
  link->says(wire::Status{recovered});
  CHECK(daemon.store.decision(id)->decision.outcome == "aborted: lost with the launcher's connection");
}

TEST_CASE("a launcher that repeats an outcome which this store does not have for its job keeps its line") {
  Daemon daemon(true);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  DecisionRecord other;
  other.decision.job = 11;
  other.decision.id = daemon.store.add(other);
  Decision forgotten;  // pruned, or of an older store
  forgotten.id = 77;
  SUBCASE("it has none of that number") {}
  SUBCASE("it has another job's under that number") { forgotten.id = other.decision.id; }
  forgotten.job = 10;
  forgotten.kind = DecisionKind::grow;
  forgotten.plan = *job(10, "n1", {0, 1}).plan;
  link->says(outcome_of(forgotten, "committed"));
  CHECK_FALSE(link->closed);
  CHECK_FALSE(link->got<wire::Refused>());
  CHECK_FALSE(daemon.store.decision(77));
  CHECK(daemon.store.decision(other.decision.id)->decision.outcome.empty());
}

TEST_CASE("what a launcher did by itself becomes a decision of its own") {
  Daemon daemon(true);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  Decision own;
  own.job = 10;
  own.kind = DecisionKind::shrink;
  own.plan = *job(10, "n1", {0}).plan;
  link->says(outcome_of(own, "committed"));
  const auto records = daemon.store.decisions(10, 1);
  REQUIRE(records.size() == 1);
  CHECK(records[0].decision.kind == DecisionKind::shrink);
  CHECK(records[0].decision.outcome == "committed");
  CHECK(records[0].decision.reason.find("by itself") != std::string::npos);
}

TEST_CASE("what a launcher is to acquire comes with a grant for each extension, where there is a key") {
  Daemon daemon;
  daemon.start(false, [](uid_t user, JobId anchor, const ExtensionRequest& request) {
    return std::to_string(user) + "/" + std::to_string(anchor) + "/" + request.node + "/" +
           std::to_string(request.gpus);
  });
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  const Decision decision = link->got<wire::Propose>()->decision;
  REQUIRE(!decision.acquire.empty());
  const auto grants = link->got<wire::Grants>();
  REQUIRE(grants);
  CHECK(grants->decision == decision.id);
  REQUIRE(grants->grants.size() == decision.acquire.size());
  for (std::size_t i = 0; i < grants->grants.size(); ++i)
    CHECK(grants->grants[i] == "1000/10/" + decision.acquire[i].node + "/" + std::to_string(decision.acquire[i].gpus));
  // The launcher has them before it is asked to submit anything.
  const auto position = [&](const char* type) {
    return std::find_if(link->sent.begin(), link->sent.end(), [&](const auto& frame) { return frame.type == type; });
  };
  CHECK(position(wire::Grants::type) < position(wire::Propose::type));
}

TEST_CASE("a waiting job makes the planner ask for an extension back") {
  Daemon daemon;
  uid_t owner = 1001;
  bool hidden = false;
  SUBCASE("of another user, who may be seen") {}
  SUBCASE("of another user, with PrivateData=jobs") { hidden = true; }
  SUBCASE("of the same user, with PrivateData=jobs") {
    hidden = true;
    owner = 1000;
  }
  daemon.slurm_says([](SlurmSnapshot& slurm) {
    run_job(slurm, slurm_job(20, 1000, {{20, "n2", {0, 1, 2, 3}}}, "espalier:ext:10:abc"));
    run_job(slurm, slurm_job(77, 5, {{77, "n1", {2, 3}}}));
  });
  const auto link = daemon.connect(1000);
  auto grown = job(10, "n1", {0, 1});
  extend(grown, 20, "n2", {0, 1, 2, 3});
  link->says(wire::Register{grown, "n1", 1});
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  CHECK_FALSE(link->got<wire::Propose>());
  daemon.slurm_state->change([&](SlurmSnapshot& slurm) {
    slurm.cluster.waiting = {{30, 2, 1, {}, {}}};
    slurm.jobs[30].uid = owner;
    slurm.private_jobs = hidden;
  });
  daemon.planner->job_submitted();
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  const Decision decision = link->got<wire::Propose>()->decision;
  CHECK(decision.kind == DecisionKind::shrink);
  const std::string who = hidden && owner != 1000 ? "another job" : "job 30";
  CHECK(decision.reason.starts_with(who + " waits for GPUs that extensions hold"));
  CHECK(daemon.store.decision(decision.id)->decision.reason == decision.reason);
  CHECK(decision.release == std::vector<JobId>{20});
  CHECK(decision.trigger == Trigger::job_submitted);
  CHECK(daemon.store.decision(decision.id)->moments.contains("event"));
}

TEST_CASE("an extension that only the launcher speaks of is not counted on") {
  Daemon daemon;
  daemon.slurm_says([](SlurmSnapshot& slurm) {
    // Job 20 belongs to another user.
    run_job(slurm, slurm_job(20, 4711, {{20, "n2", {0, 1, 2, 3}}}, "espalier:ext:10:abc"));
    run_job(slurm, slurm_job(77, 5, {{77, "n1", {2, 3}}}));
    slurm.cluster.waiting = {{30, 2, 1, {}, {}}};
  });
  const auto link = daemon.connect(1000);
  auto grown = job(10, "n1", {0, 1});
  extend(grown, 20, "n2", {0, 1, 2, 3});
  link->says(wire::Register{grown, "n1", 1});
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  daemon.pass(300);
  CHECK_FALSE(link->got<wire::Propose>());
}

TEST_CASE("--shadow decides and records once, and proposes nothing") {
  Daemon daemon(true);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return !daemon.store.decisions(10, 1).empty(); }));
  daemon.pass(300);
  CHECK_FALSE(link->got<wire::Propose>());
  REQUIRE(daemon.store.decisions(10, 10).size() == 1);
  CHECK(daemon.store.decisions(10, 1)[0].decision.outcome == "shadow");
}

TEST_CASE("without Slurm there are no decisions, and it goes on when Slurm is back") {
  Daemon daemon;
  REQUIRE(daemon.until([&] { return daemon.planner->last_snapshot() != nullptr; }));
  daemon.slurm_state->change([&](SlurmSnapshot&) { daemon.slurm_state->trouble = "slurmctld: no answer"; });
  REQUIRE(daemon.until([&] { return daemon.planner->slurm_trouble().has_value(); }));
  const auto link = daemon.launcher();
  daemon.pass(200);
  CHECK(link->sent.empty());
  daemon.slurm_state->change([&](SlurmSnapshot&) { daemon.slurm_state->trouble.clear(); });
  CHECK(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
}

TEST_CASE("a restart closes what was open, until the launcher says how it ended") {
  Daemon daemon;
  auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  const Decision decision = link->got<wire::Propose>()->decision;
  daemon.start();
  CHECK(daemon.store.decision(decision.id)->decision.outcome == "aborted: planner restarted");
  link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  link->says(outcome_of(decision, "committed"));
  CHECK(daemon.store.decision(decision.id)->decision.outcome == "committed");
}

TEST_CASE("a held job is held across a restart, until it is released") {
  Daemon daemon;
  auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  daemon.planner->hold(10, true);
  daemon.start();
  link = daemon.launcher();
  daemon.pass(300);
  CHECK_FALSE(link->got<wire::Propose>());
  daemon.planner->hold(10, false);
  CHECK(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
}
