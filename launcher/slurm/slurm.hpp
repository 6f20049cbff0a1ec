// libslurm for the launcher and the keeper. Every call may block
// for Slurm's MessageTimeout: use it from BlockingThread or a process that has nothing else to do. Thread-safe. Throws
// Error.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/decision.hpp"

namespace espalier::launcher {

struct SlurmJob {
  enum class State { pending, running, completing, ended };
  JobId id = 0;
  State state = State::ended;
  uid_t uid = 0;
  std::string name, account, comment;
  std::vector<Holding> holdings;  // one per node, with GRES indices
  bool preempted = false;         // Slurm has told the job's steps to leave; its grace time runs
};

struct ExtensionJob {
  ExtensionRequest request;
  std::string partition, account, comment;
  std::string script;                    // whole text of the batch script
  std::vector<std::string> environment;  // "NAME=value"
  std::string directory;                 // where it runs
  int grant_seconds = 0;                 // Slurm itself drops it when it was not granted by then
  bool immediate = false;                // fail unless it can start now
};

// nullopt: Slurm does not know the job (any more).
std::optional<SlurmJob> load_job(JobId id);
// GPUs of `node` that no job has, one that completes included.
int idle_gpus(const std::string& node);
JobId submit_extension(const ExtensionJob& job);
// SIGKILLs every step of the job but `except_step`, so that completing it does not wait for KillWait.
// Returns how many steps there were.
int kill_steps(JobId id, std::optional<std::uint32_t> except_step = std::nullopt);
// Steps first, then the batch script, then the job.
void give_back(JobId id);
// First name of a Slurm host list ("n[1-2]" -> "n1"); empty for an empty one.
std::string first_host(const std::string& list);
// What the launcher needs to know of slurm.conf.
struct SlurmSite {
  std::vector<uid_t> planner_uids{0};  // that may run espalierd: root and SlurmUser
  bool binds_cpus = false;             // a TaskPlugin that binds; srun complains about --cpu-bind where there is none
  int kill_wait_seconds = 0;           // from the notice at a job's time limit to its end
  std::map<std::string, int> grace_seconds;  // by partition: from the notice of a preemption to its end; 0: KillWait
};
SlurmSite load_site();

}  // namespace espalier::launcher
