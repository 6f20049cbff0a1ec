// A rank as a worker of a launcher: one generation from hello to done, or to its replacement by the next.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "planner/core/job.hpp"
#include "torchrt/config.hpp"

namespace espalier::torchrt {

struct WorkerEnvironment {
  std::string host;
  std::uint16_t port = 0;
  std::string token;
  JobId anchor = 0;  // the launcher's job; 0: outside Slurm
  int generation = 0;
  int rank = 0;                             // as MPI's start-up has it
  JobId extension = 0;                      // the Slurm job whose step this is, the anchor's own too; 0: none
  std::string vault;                        // what the names of the job's vaults begin with; empty: there are none
  std::string owner;                        // of this process's vault: a Slurm job; empty: outside Slurm
  bool own = false, with_launcher = false;  // VaultPlace's
  std::chrono::milliseconds heartbeat{0};   // 0: the launcher wants none
  std::chrono::seconds patience{600};       // a launcher that has not acted by then is broken
};

// From ESPALIER_LAUNCHER, ESPALIER_TOKEN, ESPALIER_GENERATION, ESPALIER_VAULT, ESPALIER_ANCHOR, ESPALIER_HEARTBEAT,
// ESPALIER_PATIENCE, ESPALIER_WITH_LAUNCHER, SLURM_JOB_ID and OMPI_COMM_WORLD_RANK. nullopt: there is no launcher.
// Throws Error when the variables are there but malformed.
std::optional<WorkerEnvironment> worker_environment();

// Before MPI starts: the process dies with its parent, and outlives SIGTERM. Slurm's preemption signals every process
// of an extension, but when to leave is the launcher's to say.
void shield_worker();

// True once after each SIGTERM.
bool take_notice();

// Starts MPI once the launcher knows this process, so that it notices the loss of one that MPI still waits for. Returns
// the exit code after at most one message. Collective. `checksum`: prints one of the weights on both sides of every
// hand-off.
int run_worker(const Config& config, const WorkerEnvironment& environment, int* argc, char*** argv, bool checksum);

}  // namespace espalier::torchrt
