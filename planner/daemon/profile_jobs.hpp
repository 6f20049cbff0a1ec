// Profile jobs: small Slurm jobs of a user in the partition for extensions, each on one GPU. They measure stages of a
// job of that user that waits (espalier profile). Slurm preempts them as it does extensions. Pure.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <utility>
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

// The profile jobs that run or wait, and jobs that were submitted with a profile job's grant under another name: all
// jobs in the partition for extensions whose anchor waits.
struct ProfileJobs {
  int all = 0, of_user = 0;
  std::set<std::string> types;  // for which the waiting job has one
};

// `partition`: that of extensions. `without`: a job that counts no more, as it is about to end; 0: none.
ProfileJobs profile_jobs(const SlurmSnapshot& slurm, const std::string& partition, const SlurmJob& waiting,
                         JobId without = 0);

// Grants of the last seconds, whose jobs Slurm may not have told of yet.
class RecentGrants {
 public:
  // `grant`: its text (wire/grant.h); empty where the site has none.
  void add(uid_t user, double now, const std::string& grant);
  // `jobs`, of this snapshot, and the grants whose ID no job's comment names. Of grants without an ID: at least as many
  // jobs as there were such grants. `replaces`: a profile job asks for the one that takes its place, and may be of
  // these itself.
  ProfileJobs with_grants(ProfileJobs jobs, const SlurmSnapshot& slurm, uid_t user, double now, bool replaces = false);

 private:
  struct Grant {
    double time = 0;
    uid_t user = 0;
    std::string id;
  };
  std::deque<Grant> grants_;
};

struct ProfilePlace {
  std::string type;  // of the GPU
  ExtensionRequest request;
  bool idle = false;  // the GPU is idle now; else the profile job waits for it
};

// One GPU of each type for which `waiting` has no profile job yet, as many as `rules` leave. Types on which the job
// itself may start come first. Of each type the node with the fewest idle GPUs is taken, but one at least; where no GPU
// is idle, any node. `there`: profile_jobs(). `closed`: sorted nodes that it may not have; null: none. `only`: the one
// type that is asked for; empty: all. Throws Error that says which bound is reached.
std::vector<ProfilePlace> profile_places(const SlurmSnapshot& slurm, const SlurmJob& waiting,
                                         const ProfilingRules& rules, const ProfileJobs& there, const NodeNames& closed,
                                         const std::string& only = {});

}  // namespace espalier
