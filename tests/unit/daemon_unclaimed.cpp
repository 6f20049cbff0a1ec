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
