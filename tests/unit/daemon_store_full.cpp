// A store that cannot be written stops only the work that needs it.
#include <doctest/doctest.h>

#include "planner/daemon/sqlite.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// Until `heal`, writing job 10's rows into `table` fails, as on a full disk.
void fill_up(Daemon& daemon, const std::string& table, const std::string& column) {
  Database(daemon.folder.file("test.db"))
      .execute("CREATE TRIGGER no_room BEFORE INSERT ON " + table + " WHEN NEW." + column +
               "=10 BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END");
}
void heal(Daemon& daemon) { Database(daemon.folder.file("test.db")).execute("DROP TRIGGER no_room"); }

std::shared_ptr<TestLink> second_launcher(Daemon& daemon) {
  auto link = daemon.connect(1000);
  link->says(wire::Register{job(11, "n2", {0, 1}), "n2", 2});
  return link;
}

}  // namespace

TEST_CASE("a decision that cannot be written down is not proposed; another job's of the same review is") {
  Daemon daemon;
  daemon.slurm_says([](SlurmSnapshot& slurm) { run_job(slurm, slurm_job(11, 1000, {{11, "n2", {0, 1}}})); });
  fill_up(daemon, "decisions", "job");
  const auto first = daemon.launcher();
  const auto second = second_launcher(daemon);
  REQUIRE(daemon.until([&] { return second->got<wire::Propose>().has_value(); }));
  daemon.pass(250);
  CHECK(first->got<wire::Registered>());
  CHECK_FALSE(first->got<wire::Propose>());
  CHECK_FALSE(daemon.planner->jobs().at(10).open);
  second->says(outcome_of(second->got<wire::Propose>()->decision, "aborted: no extension", 0));
  heal(daemon);
  CHECK(daemon.until([&] { return first->got<wire::Propose>().has_value(); }));
}

TEST_CASE("an extension that cannot be written down keeps nobody from growing") {
  Daemon daemon;
  Database(daemon.folder.file("test.db"))
      .execute("CREATE TRIGGER no_room BEFORE INSERT ON allocations BEGIN SELECT RAISE(FAIL, 'disk is full'); END");
  daemon.slurm_says([](SlurmSnapshot& slurm) {
    SlurmJob extension = slurm_job(20, 1000, {{20, "n1", {2}}}, "espalier:ext:10:0123abcd");
    slurm.jobs.at(10).started = extension.started = 1;
    run_job(slurm, extension);
  });
  const auto link = daemon.launcher();
  CHECK(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
}

TEST_CASE("a decision whose end cannot be written down stays as it was until it can") {
  Daemon daemon;
  auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  const Decision proposed = link->got<wire::Propose>()->decision;
  Database(daemon.folder.file("test.db"))
      .execute("CREATE TRIGGER no_room BEFORE UPDATE ON decisions BEGIN SELECT RAISE(FAIL, 'disk is full'); END");
  const auto comes_back = [&] {
    if (!link->closed) link->on_closed("reset");
    link = daemon.launcher();
    REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
    link->says(wire::Status{job(10, "n1", {0, 1})});
  };
  comes_back();
  REQUIRE(daemon.planner->jobs().at(10).open);
  CHECK(daemon.planner->jobs().at(10).open->decision.plan == proposed.plan);
  heal(daemon);
  comes_back();
  CHECK_FALSE(daemon.planner->jobs().at(10).open);
  CHECK(daemon.store.decision(proposed.id)->decision.plan == proposed.plan);
  CHECK(daemon.store.decision(proposed.id)->decision.outcome == "aborted: lost with the launcher's connection");
}

TEST_CASE("a launcher that cannot be written down is told to come again; another one is registered") {
  Daemon daemon(true);
  daemon.slurm_says([](SlurmSnapshot& slurm) { run_job(slurm, slurm_job(11, 1000, {{11, "n2", {0, 1}}})); });
  fill_up(daemon, "jobs", "id");
  auto first = daemon.launcher();
  const auto second = second_launcher(daemon);
  REQUIRE(daemon.until([&] { return second->got<wire::Registered>().has_value(); }));
  CHECK(first->closed);
  CHECK(first->got<wire::Refused>()->reason.find("full") != std::string::npos);
  CHECK(daemon.planner->jobs().at(10).link == nullptr);
  heal(daemon);
  first = daemon.launcher();
  CHECK(daemon.until([&] { return first->got<wire::Registered>().has_value(); }));
}
