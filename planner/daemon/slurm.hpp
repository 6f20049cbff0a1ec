// Slurm as the daemon needs it: one snapshot, and ending a job. Behind an interface, so that tests bring their own.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "planner/core/cluster.hpp"

namespace espalier {

// Owner of a GPU that Slurm counts as used but no job in sight holds.
inline constexpr JobId kUnknownOwner = static_cast<JobId>(-1);

// For so long after its submission a job is left to Slurm, which starts it or begins to preempt for it when it first
// looks at it; SchedulerParameters=batch_sched_delay is 3 s unless the site says otherwise.
inline constexpr double kLeftToSlurmSeconds = 5;

enum class SlurmJobState { pending, running, completing, ended };

struct SlurmJob {
  JobId id = 0;
  uid_t uid = 0;
  std::string name, comment, partition;
  SlurmJobState state = SlurmJobState::pending;
  std::vector<Holding> holdings;  // running and completing
  bool preempted = false;         // still running, but Slurm has told it to leave
  double submitted = 0;           // seconds since the epoch
  int wanted_gpus = 0;            // in total, as requested
  double ended = 0;               // completing: since when, seconds since the epoch
};

struct SlurmSnapshot {
  double time = 0;  // when it was asked for, seconds since the epoch
  uid_t slurm_user = 0;
  bool private_jobs = false;  // PrivateData has "jobs": users do not see each other's
  ClusterView cluster;
  std::map<JobId, SlurmJob> jobs;  // those Slurm still knows, ended ones included

  // nullptr when Slurm does not know it, or only as ended.
  const SlurmJob* alive(JobId id) const;
};

class Slurm {
 public:
  virtual ~Slurm() = default;
  // Throws Error. Blocks for as long as Slurm's own time limits allow.
  virtual SlurmSnapshot snapshot() = 0;
  // Kills the job's steps first, then the job (the other order keeps it completing for KillWait). Throws Error.
  virtual void kill(JobId job) = 0;
};

// By libslurm. `partition`: extensions go there; nodes outside it are not usable for growth. `topology_file`: read
// where Slurm tells no switches (planner.topology_file; empty: none). One thread at a time.
std::unique_ptr<Slurm> make_slurm(const std::string& partition, const std::string& topology_file);

// The anchor named in an extension's comment "espalier:ext:<anchor>:<nonce>"; 0: not an extension's comment.
JobId anchor_of_comment(const std::string& comment);
// The movable job named in a base's comment "espalier:base:<job>:<nonce>"; 0: not a base's comment.
JobId submitted_of_base(const std::string& comment);

}  // namespace espalier
