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
  std::string reservation, wckey;        // of the submitted job; empty: none
  int nice = 0;                          // the same
  std::string cluster = {};              // as in ExtensionJob
  std::string script;                    // whole text of the batch script
  std::vector<std::string> environment;  // "NAME=value"
  std::string directory;                 // its working directory
  // When the base ends if it starts now, in seconds since the epoch; 0: never. keep_within() lowers the time limit of a
  // base that waits.
  std::time_t ends = 0;
  // Slurm drops the base where it waits and cannot end by then; 0: it has no deadline. (--time-min would make Slurm do
  // it, but its backfill scheduler then also starts a base early with the least time, and training loses its base.)
  std::time_t deadline = 0;
  bool immediate = false;  // fail unless it can start now
};

// The nodes of a partition. Throws Error also when there is no such partition.
std::vector<NodeCapacity> partition_nodes(const std::string& partition);
// The longest time limit of the partition's jobs, in minutes; 0: none. Throws Error when there is no such partition.
long partition_minutes(const std::string& partition);
// Returns the base's job id.
JobId submit_base(const BaseJob& job);
// Lowers the time limit of a base that waits, so that it would end at `ends` if it started now. Does
// nothing while less than a minute, or a twentieth of what is left, would change; at the most it is five minutes late.
// Where the limit is longer than the partition's MaxTime, e.g. as that was lowered, it is lowered to that first.
void keep_within(const SlurmJob& base, std::time_t ends);
// The bases of the movable job `submitted` that wait or run, of this user, oldest first.
std::vector<SlurmJob> bases_of(JobId submitted);
std::vector<SlurmJob> extensions_of(JobId submitted);  // the same for its extensions

// The comment of a base is "espalier:base:<submitted job>:<nonce>", and of one that is submitted beside another base
// there is ":beside" behind that. By it strays are found.
std::string base_comment(JobId submitted, const std::string& nonce);

}  // namespace espalier::launcher
