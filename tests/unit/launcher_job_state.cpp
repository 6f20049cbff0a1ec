#include "launcher/slurm/job_state.hpp"

#include <doctest/doctest.h>

using namespace espalier::launcher;

TEST_CASE("a job waits, runs, completes or has ended") {
  CHECK(state_of(JOB_PENDING) == SlurmJob::State::pending);
  CHECK(state_of(JOB_RUNNING | JOB_CONFIGURING) == SlurmJob::State::running);
  CHECK(state_of(JOB_SUSPENDED) == SlurmJob::State::running);
  CHECK(state_of(JOB_COMPLETE | JOB_COMPLETING) == SlurmJob::State::completing);
  CHECK(state_of(JOB_TIMEOUT) == SlurmJob::State::ended);
}

TEST_CASE("a job that another cluster of the federation has is over here") {
  CHECK(state_of(JOB_PENDING | JOB_REVOKED) == SlurmJob::State::ended);
}
