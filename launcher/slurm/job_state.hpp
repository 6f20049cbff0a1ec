// What a job's state in Slurm's numbers means to a launcher.
#pragma once

#include <slurm/slurm.h>

#include "launcher/slurm/slurm.hpp"

namespace espalier::launcher {

// `state`: job_state of the job's record.
inline SlurmJob::State state_of(std::uint32_t state) {
  // Another cluster of the federation has the job, and slurmctld shows its own record of it as one that waits.
  if ((state & JOB_REVOKED) != 0) return SlurmJob::State::ended;
  if ((state & JOB_COMPLETING) != 0) return SlurmJob::State::completing;
  switch (state & JOB_STATE_BASE) {
    case JOB_PENDING:
      return SlurmJob::State::pending;
    case JOB_RUNNING:
    case JOB_SUSPENDED:
      return SlurmJob::State::running;
    default:
      return SlurmJob::State::ended;
  }
}

}  // namespace espalier::launcher
