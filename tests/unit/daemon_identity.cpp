#include <doctest/doctest.h>
#include <unistd.h>

#include <utility>

#include "planner/daemon/answers.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {
std::string refusal(Daemon& daemon, const std::shared_ptr<TestLink>& link) {
  if (!daemon.until([&] { return link->got<wire::Refused>().has_value(); })) return "";
  CHECK(link->closed);
  return link->got<wire::Refused>()->reason;
}
}  // namespace

TEST_CASE("a launcher of another user is refused") {
  Daemon daemon;
  CHECK(refusal(daemon, daemon.launcher(1001)).find("uid 1000") != std::string::npos);
  CHECK(daemon.planner->jobs().empty());
}

TEST_CASE("a launcher of a job that does not run is refused") {
  Daemon daemon;
  daemon.slurm_says([](SlurmSnapshot& slurm) { slurm.jobs[10].state = SlurmJobState::pending; });
  CHECK(refusal(daemon, daemon.launcher()).find("running") != std::string::npos);
  daemon.slurm_says([](SlurmSnapshot& slurm) { slurm.jobs.clear(); });
  CHECK(refusal(daemon, daemon.launcher()).find("running") != std::string::npos);
}

TEST_CASE("a second launcher for a job is refused; the first one may come back") {
  Daemon daemon;
  const auto first = daemon.launcher(1000, 1);
  REQUIRE(daemon.until([&] { return first->got<wire::Registered>().has_value(); }));
  CHECK(refusal(daemon, daemon.launcher(1000, 2)).find("already") != std::string::npos);
  CHECK_FALSE(first->closed);
  const auto again = daemon.launcher(1000, 1);  // its old connection's loss is not noticed yet
  REQUIRE(daemon.until([&] { return again->got<wire::Registered>().has_value(); }));
  CHECK(first->closed);
  CHECK(daemon.planner->jobs().at(10).link == again);
}

TEST_CASE("the launcher of a requeued job takes the place of the one before, whose connection may still seem to live") {
  Daemon daemon;
  const auto first = daemon.launcher(1000, 1);
  REQUIRE(daemon.until([&] { return first->got<wire::Registered>().has_value(); }));
  // What it has used, and a hold, stay the job's. Nothing trains between the two launchers.
  daemon.planner->hold(10, true);
  ElasticJob trains = daemon.planner->jobs().at(10).job;
  trains.phase = JobPhase::running;
  first->says(wire::Status{trains});
  const double trained = daemon.planner->jobs().at(10).usage.trained;
  daemon.slurm_state->change([](SlurmSnapshot& slurm) { slurm.jobs.at(10).started += 200; });
  const auto second = daemon.launcher(1000, 2);
  REQUIRE(daemon.until([&] { return second->got<wire::Registered>().has_value(); }));
  CHECK(first->closed);
  CHECK(daemon.planner->jobs().at(10).link == second);
  CHECK(daemon.planner->jobs().at(10).job.held);
  CHECK(daemon.planner->jobs().at(10).usage.trained == trained);
  CHECK(refusal(daemon, daemon.launcher(1000, 1)).find("already") != std::string::npos);
}

TEST_CASE("a job that Slurm has requeued is not charged for its time in the queue") {
  Daemon daemon(true);
  const auto seconds = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  };
  const auto first = daemon.launcher(1000, 1);
  REQUIRE(daemon.until([&] { return first->got<wire::Registered>().has_value(); }));
  ElasticJob trains = daemon.planner->jobs().at(10).job;
  trains.phase = JobPhase::running;
  first->says(wire::Status{trains});
  bool restarted = false, seen = true;
  SUBCASE("the planner sees it in the queue") {}
  SUBCASE("the planner does not see it there") { seen = false; }
  SUBCASE("the planner is restarted meanwhile") { restarted = true; }
  SUBCASE("the planner is restarted meanwhile, and did not see it there") {
    restarted = true;
    seen = false;
  }
  if (seen) daemon.slurm_says([](SlurmSnapshot& slurm) { slurm.jobs.at(10).state = SlurmJobState::pending; });
  std::exchange(first->on_closed, nullptr)("lost");
  const TrainingUsage before = daemon.planner->jobs().at(10).usage;
  if (restarted) {
    daemon.gate.reset();
    daemon.planner.reset();
    TrainingUsage kept = daemon.store.training(10).value();
    CHECK(kept.gpus == (seen ? 0 : 2));
  }
  const double waits_from = seconds();
  while (seconds() < waits_from + 0.4) daemon.pass(50);
  const double starts = seconds();
  daemon.slurm_state->change([&](SlurmSnapshot& slurm) {
    slurm.jobs.at(10).state = SlurmJobState::running;
    slurm.jobs.at(10).started = starts;
  });
  if (restarted) daemon.start(true);
  const auto second = daemon.launcher(1000, 2);
  REQUIRE(daemon.until([&] { return second->got<wire::Registered>().has_value(); }));
  const TrainingUsage& after = daemon.planner->jobs().at(10).usage;
  CHECK(after.paused == before.paused);
  CHECK(after.trained - before.trained < 0.2);  // it stood for 0.4 s on two GPUs
}

TEST_CASE("another user's job under a number that Slurm has given again has none of what the first one used") {
  Daemon daemon(true);
  const auto first = daemon.launcher(1000, 1);
  REQUIRE(daemon.until([&] { return first->got<wire::Registered>().has_value(); }));
  ElasticJob trains = daemon.planner->jobs().at(10).job;
  trains.phase = JobPhase::running;
  first->says(wire::Status{trains});
  daemon.pass(100);
  bool restarted = false;
  SUBCASE("the planner runs on") {
    daemon.slurm_state->change([](SlurmSnapshot& slurm) { slurm.jobs.at(10).uid = 1001; });
  }
  SUBCASE("the planner is restarted meanwhile") {
    restarted = true;
    std::exchange(first->on_closed, nullptr)("lost");
    daemon.gate.reset();
    daemon.planner.reset();
    TrainingUsage used;
    used.trained = 50;
    daemon.store.save(10, used);
    daemon.slurm_state->change([](SlurmSnapshot& slurm) { slurm.jobs.at(10).uid = 1001; });
    daemon.start(true);
  }
  daemon.slurm_state->change([](SlurmSnapshot& slurm) { slurm.jobs.at(10).started += 200; });
  const auto second = daemon.launcher(1001, 2);
  REQUIRE(daemon.until([&] { return second->got<wire::Registered>().has_value(); }));
  CHECK((restarted || first->closed));
  CHECK(daemon.planner->jobs().at(10).job.uid == 1001);
  CHECK(daemon.planner->jobs().at(10).usage.trained == 0);
  CHECK(daemon.store.training(10)->trained == 0);
  CHECK(daemon.planner->jobs_of(1000) == 0);
}

TEST_CASE("what comes before registration, or about another job, is refused") {
  Daemon daemon;
  const auto stranger = daemon.connect(1000);
  stranger->says(wire::Status{job(10, "n1", {0, 1})});
  CHECK(stranger->got<wire::Refused>());
  CHECK(stranger->closed);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  link->says(wire::Bye{11, 0});
  CHECK(link->closed);
  CHECK(daemon.planner->jobs().contains(10));
  CHECK(daemon.planner->jobs().at(10).link == nullptr);
}

TEST_CASE("a report that makes no sense is refused") {
  Daemon daemon;
  auto wrong = job(10, "n1", {0, 1});
  wrong.plan->stages[0].layers = 99;
  const auto link = daemon.connect(1000);
  link->says(wire::Register{wrong, "n1", 1});
  CHECK(link->got<wire::Refused>());
}

TEST_CASE("a peer that floods is refused") {
  Daemon daemon(true);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  for (int i = 0; i < 1000 && !link->closed; ++i) link->says(wire::Transition{10, 1, "running", "e", "running", 0, 0});
  CHECK(link->closed);
  CHECK(link->got<wire::Refused>()->reason == "too many messages");
}

TEST_CASE("what a launcher says cannot forge a line of the log or break the store") {
  Daemon daemon(true);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  wire::Outcome outcome;
  outcome.job = 10;
  outcome.result = "aborted:\n\xc3\xa4" + std::string(5000, 'x');
  link->says(outcome);
  CHECK_FALSE(link->closed);
  const auto records = daemon.store.decisions(10, 1);
  REQUIRE(records.size() == 1);
  CHECK(records[0].decision.outcome.substr(0, 12) == "aborted:???x");
  CHECK(records[0].decision.outcome.size() == 1000);
}

TEST_CASE("topology is taken from root and SlurmUser only") {
  Daemon daemon;
  REQUIRE(daemon.until([&] { return daemon.planner->last_snapshot() != nullptr; }));
  const wire::Topology topology{"n1", "<?xml version=\"1.0\"?><topology/>"};
  const auto user = daemon.connect(1000);
  user->says(topology);
  CHECK(user->got<wire::Refused>());
  CHECK(daemon.store.topologies().empty());
  const auto slurm = daemon.connect(64030);
  slurm->says(topology);
  CHECK_FALSE(slurm->got<wire::Refused>());
  CHECK(daemon.store.topologies().contains("n1"));
}

TEST_CASE("only a job's owner and administrators may hold it") {
  Daemon daemon(true);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  const wire::Config config;
  Answers answers(*daemon.planner, config);
  const wire::Query hold{"hold", {{"job", 10}}};
  CHECK_THROWS_AS(answers.answer(hold, {1001, 1001, "test"}), Error);
  CHECK_FALSE(daemon.store.held(10));
  answers.answer(hold, {1000, 1000, "test"});
  CHECK(daemon.store.held(10));
  answers.answer({"release", {{"job", 10}}}, {64030, 64030, "test"});
  CHECK_FALSE(daemon.store.held(10));
  answers.answer(hold, {0, 0, "test"});
  CHECK(daemon.store.held(10));
  CHECK_THROWS_AS(answers.answer({"hold", {{"job", "10"}}}, {0, 0, "test"}), Error);
  CHECK_THROWS_AS(answers.answer({"hold", {{"job", 11}}}, {0, 0, "test"}), Error);
  CHECK_THROWS_AS(answers.answer({"hold", Json::array()}, {0, 0, "test"}), Error);
  CHECK_THROWS_AS(answers.answer({"dance", Json::object()}, {0, 0, "test"}), Error);
}

TEST_CASE("every answer can be formatted") {
  Daemon daemon(true);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return !daemon.store.decisions(10, 1).empty(); }));
  const wire::Config config;
  const auto ask = [&](const std::string& what, const Json& arguments = Json::object()) {
    return test::ask(daemon, config, {what, arguments}, 4711);
  };
  CHECK(ask("ping").at("shadow") == true);
  CHECK(ask("job", {{"job", 10}}).at("job").at("gpus") == 2);
  CHECK(ask("jobs").at("jobs").size() == 1);
  CHECK(ask("decisions").at("decisions").size() == 1);
  CHECK(ask("decision", {{"decision", 1}}).at("decision").at("candidates").size() >= 4);
  CHECK(ask("nodes").at("nodes").size() == 2);
  CHECK(ask("explain", {{"job", 10}}).at("obstacles").size() >= 1);
  CHECK(ask("config").contains("planner.port"));
  CHECK_THROWS_AS(ask("job", {{"job", 12}}), Error);
  CHECK_THROWS_AS(ask("decision", {{"decision", 99}}), Error);
}
