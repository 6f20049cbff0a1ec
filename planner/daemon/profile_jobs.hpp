// Profile jobs: small Slurm jobs of a user in the partition for extensions, each on one GPU. They measure stages of a
// job of that user that waits (espalier profile). Slurm preempts them as it does extensions. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/core/decision.hpp"
#include "planner/core/scheduler.hpp"
#include "planner/daemon/slurm.hpp"

namespace espalier {

// [profiling] of espalier.toml.
struct ProfilingRules {
  int gpus = 4;      // most of all profile jobs together; 0: there are none
  int per_user = 2;  // most of one user's
  int minutes = 10;  // time limit of each
  bool operator==(const ProfilingRules&) const = default;
};

bool is_profile_job(const SlurmJob& job);

struct ProfilePlace {
  std::string type;  // of the GPU
  ExtensionRequest request;
  bool idle = false;  // the GPU is idle now; else the profile job waits for it
};

// One GPU of each type for which `waiting` has no profile job yet, as many as `rules` leave. Types on which the job
// itself may start come first. Of each type the node with the fewest idle GPUs is taken, but one at least; where no GPU
// is idle, any node. `closed`: sorted nodes that it may not have; null: none. `without`: a profile job that counts no
// more, as it is about to end; 0: none. `only`: the one type that is asked for; empty: all. Throws Error that says
// which bound is reached.
std::vector<ProfilePlace> profile_places(const SlurmSnapshot& slurm, const SlurmJob& waiting,
                                         const ProfilingRules& rules, const NodeNames& closed, JobId without = 0,
                                         const std::string& only = {});

}  // namespace espalier
