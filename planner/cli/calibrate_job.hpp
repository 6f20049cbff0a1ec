// The Slurm job of `espalier calibrate`: an allocation of salloc, in which ranks run one per GPU.
#pragma once

#include <string>
#include <vector>

#include "planner/core/probe/report.hpp"
#include "planner/core/probe/request.hpp"

namespace espalier::cli {

struct CalibrateJob {
  std::vector<std::string> nodes;
  int gpus = 1;                    // ranks of every node
  int minutes = 10;                // the job's time limit
  int wait_seconds = 300;          // for its start
  std::string partition;           // empty: Slurm's default
  std::string program;             // espalier-train, as nodes find it
  std::string network;             // launch.network
  std::string mpi;                 // "pmix", "mpirun"; empty: what works
  std::vector<std::string> extra;  // of salloc
  ProbeRequest request;
};

// What run_calibrate_job() executes. Pure.
std::vector<std::string> salloc_command(const CalibrateJob& job);

// Runs the job and returns what the ranks measured. The job ends with this process, whatever ends it:
// SIGINT, SIGTERM and SIGHUP cancel it. Throws Error when Slurm gives no nodes in time, and when
// the ranks fail.
ProbeReport run_calibrate_job(const CalibrateJob& job);

}  // namespace espalier::cli
