// Jobs that end while no planner runs, or while none of their launchers is registered.
#include <doctest/doctest.h>

#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

TEST_CASE("jobs that ended while no planner ran are ended in the store, with their holds") {
  Daemon daemon(true);
  daemon.planner.reset();
  daemon.store.save(job(10, "n1", {0, 1}), 1);  // runs; its launcher is reconnecting
  daemon.store.save(job(30, "n1", {0, 1}), 1);  // Slurm has forgotten it
  daemon.store.save(job(31, "n1", {0, 1}), 1);  // Slurm shows it as ended
  daemon.store.save(job(32, "n1", {0, 1}), 1);
  daemon.store.end(32, 7, 2);
  for (const JobId id : {10, 30, 33}) daemon.store.hold(id, true);
  daemon.slurm_state->change([](SlurmSnapshot& slurm) {
    slurm.jobs[31] = slurm_job(31, 1000, {});
    slurm.jobs[31].state = SlurmJobState::ended;
  });
  daemon.start(true);
  REQUIRE(daemon.until([&] { return daemon.store.job(30)->ended; }));
  CHECK(daemon.store.job(30)->exit_code == -1);
  CHECK(daemon.store.job(31)->ended);
  CHECK(daemon.store.job(32)->exit_code == 7);
  CHECK_FALSE(daemon.store.job(10)->ended);
  CHECK(daemon.store.holds() == std::vector<JobId>{10});

  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  CHECK(daemon.planner->jobs().at(10).job.held);
  CHECK_FALSE(daemon.store.job(10)->ended);
}

TEST_CASE("after a restart, extensions of a job that cannot run its launcher are left alone until it can") {
  Daemon daemon;
  daemon.planner.reset();
  const auto runs = [](SlurmSnapshot& slurm) {
    slurm.jobs[10].state = SlurmJobState::running;
    slurm.jobs[10].suspended = false;
  };
  daemon.slurm_state->change([](SlurmSnapshot& slurm) {
    run_job(slurm, slurm_job(11, 1001, {{11, "n1", {2}}}));
    run_job(slurm, slurm_job(20, 1000, {{20, "n2", {0}}}, "espalier:ext:10:ab"));
  });
  bool spared = true;
  SUBCASE("Slurm has requeued it") {
    daemon.store.save(job(10, "n1", {0, 1}), 1);
    daemon.slurm_state->change([](SlurmSnapshot& slurm) { slurm.jobs[10].state = SlurmJobState::pending; });
  }
  SUBCASE("Slurm has suspended it") {
    daemon.store.save(job(10, "n1", {0, 1}), 1);
    daemon.slurm_state->change([](SlurmSnapshot& slurm) { slurm.jobs[10].suspended = true; });
  }
  SUBCASE("but not those of a job that has never had a launcher, and is held") {
    spared = false;
    daemon.store.hold(10, true);
    daemon.slurm_state->change([](SlurmSnapshot& slurm) { slurm.jobs[10].state = SlurmJobState::pending; });
  }
  daemon.start();
  const auto other = daemon.connect(1001);
  other->says(wire::Register{job(11, "n1", {2}), "n1", 1});
  REQUIRE(daemon.until([&] { return other->got<wire::Registered>().has_value(); }));
  daemon.slurm_says([](SlurmSnapshot&) {});
  daemon.slurm_says_later(300, [](SlurmSnapshot&) {});
  if (!spared) {
    CHECK(daemon.until([&] { return daemon.killed() == std::vector<JobId>{20}; }));
    return;
  }
  daemon.pass(50);
  CHECK(daemon.killed().empty());
  daemon.slurm_says(runs);  // its launcher has as long as any to register
  daemon.slurm_says_later(110, [](SlurmSnapshot&) {});
  daemon.pass(50);
  CHECK(daemon.killed().empty());
  daemon.slurm_says_later(20, [](SlurmSnapshot&) {});
  CHECK(daemon.until([&] { return daemon.killed() == std::vector<JobId>{20}; }));
}

TEST_CASE("a launcher that stays connected when its job has ended is cut off after a minute") {
  Daemon daemon(true);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Registered>().has_value(); }));
  const auto is = [](SlurmJobState state) { return [=](SlurmSnapshot& slurm) { slurm.jobs[10].state = state; }; };
  daemon.slurm_says(is(SlurmJobState::completing));
  daemon.slurm_says_later(300, [](SlurmSnapshot&) {});
  daemon.slurm_says(is(SlurmJobState::ended));
  daemon.slurm_says_later(50, is(SlurmJobState::running));  // as after a slurmctld that had not read its state yet
  daemon.slurm_says(is(SlurmJobState::ended));
  const double used = daemon.planner->jobs().at(10).usage.trained;
  daemon.slurm_says_later(50, [](SlurmSnapshot&) {});
  CHECK_FALSE(link->closed);
  REQUIRE(daemon.planner->jobs().contains(10));
  CHECK(daemon.planner->jobs().at(10).usage.trained == used);
  CHECK(daemon.planner->jobs_of(1000) == 1);
  daemon.slurm_says_later(20, [](SlurmSnapshot&) {});
  CHECK(link->closed);
  REQUIRE(link->got<wire::Refused>());
  CHECK(link->got<wire::Refused>()->reason.find("has ended") != std::string::npos);
  CHECK(daemon.planner->jobs().empty());
  CHECK(daemon.planner->jobs_of(1000) == 0);  // so many connections fewer may the user have
  CHECK(daemon.store.job(10)->ended);
  CHECK(daemon.store.job(10)->exit_code == -1);
}

TEST_CASE("a job whose launcher never comes back is ended when Slurm says so, and not before Slurm answers") {
  Daemon daemon(true);
  daemon.planner.reset();
  daemon.store.save(job(10, "n1", {0, 1}), 1);
  daemon.slurm_state->change([&](SlurmSnapshot&) { daemon.slurm_state->trouble = "slurmctld: no answer"; });
  daemon.start(true);
  daemon.pass(250);
  CHECK_FALSE(daemon.store.job(10)->ended);
  daemon.slurm_state->change([&](SlurmSnapshot&) { daemon.slurm_state->trouble.clear(); });
  daemon.pass(250);
  CHECK_FALSE(daemon.store.job(10)->ended);
  daemon.slurm_says([](SlurmSnapshot& slurm) { slurm.jobs.clear(); });
  CHECK(daemon.until([&] { return daemon.store.job(10)->ended; }));
}
