// libslurm for the bases of movable jobs. Every function may block for Slurm's MessageTimeout: call it on a
// BlockingThread, or in a process that has nothing else to do. Thread-safe. Every function throws Error.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "launcher/base/base_shape.hpp"
#include "launcher/slurm/slurm.hpp"

namespace espalier::launcher {

struct BaseJob {
  BaseShape shape;
  std::vector<std::string> only;  // it must have exactly these nodes; empty: Slurm chooses
  std::string partition, qos, account, name, comment;
  std::string reservation;               // of the submitted job; empty: none
  std::string script;                    // whole text of the batch script
  std::vector<std::string> environment;  // "NAME=value"
  std::string directory;                 // its working directory
  // When the submitted job ends by its time limit, in seconds since the epoch; 0: never. Slurm drops a base that waits
  // beyond it, and shortens the time limit of one that starts late. (Tried on 22.05: --deadline with --time-min does
  // both. A user cannot change the deadline of a waiting job, so it cannot be a short one that is renewed.)
  std::time_t ends = 0;
  bool immediate = false;  // fail unless it can start now
};

// The nodes of a partition. Throws Error also when there is no such partition.
std::vector<NodeCapacity> partition_nodes(const std::string& partition);
// Returns the base's job id.
JobId submit_base(const BaseJob& job);
// The bases of the movable job `submitted` that wait or run, of this user, oldest first.
std::vector<SlurmJob> bases_of(JobId submitted);
std::vector<SlurmJob> extensions_of(JobId submitted);  // the same for its extensions

// The comment of a base is "espalier:base:<submitted job>:<nonce>". By it strays are found.
std::string base_comment(JobId submitted, const std::string& nonce);

}  // namespace espalier::launcher
