// libslurm for the launcher and the keeper. Every function may block for Slurm's MessageTimeout: call it on a
// BlockingThread, or in a process that has nothing else to do. Thread-safe. Every function throws Error.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <set>
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
  std::vector<Holding> holdings;      // one per node, with GRES indices
  bool preempted = false;             // Slurm has told the job's steps to leave; its grace time runs
  std::string features, reservation;  // its constraint and its reservation; empty: none
  bool typed_gpus = false;            // it asked for a GPU type, as in --gpus=h100:4
  std::string partition = {}, qos = {};
  std::string wckey = {};  // that its user named; empty: the default one counts
  int nice = 0;
  int restarts = 0;             // how often it was requeued
  int cpus = 0;                 // of all its nodes
  long memory_mb_per_node = 0;  // 0: it was requested otherwise
  bool may_be_requeued = false;
  bool past_deadline = false;  // ended: Slurm has dropped it while it waited
  bool runs_again = false;     // completing: Slurm has requeued it
  std::time_t ends = 0;        // when its time limit ends a running job; 0: it has none
  long limit_minutes = 0;      // its time limit; 0: it has none
  // What it has asked for: nodes, GPUs of each as --gres says it, and nodes that it must not get.
  int wanted_nodes = 0, wanted_gpus_per_node = 0;
  std::vector<std::string> excluded = {};
  bool limited = false;           // it waits for a limit of its user, account or QOS, which several jobs share
  bool beyond_partition = false;  // it waits as its time limit is longer than its partition's MaxTime
  // Running: its processes cannot start yet, as its nodes boot or a Prolog runs that Slurm knows of.
  bool configuring = false;
  bool suspended = false;       // running, and its processes are stopped
  bool ended_well = false;      // completing or ended: its batch script has, with exit code 0
  std::string batch_host = {};  // the node on which Slurm has started its batch script; empty: it has no script
};

struct ExtensionJob {
  JobId anchor = 0;
  std::string name = {};  // for squeue and sacct; empty: "ext-" and the id of its anchor
  ExtensionRequest request;
  std::string partition, account, comment;
  std::string qos, constraint, reservation;  // empty: none is named
  std::string wckey = {};                    // the same
  std::string cluster = {};                  // the only one of a federation that may run it; empty: any
  int nice = 0;
  bool typed_gpus = false;               // ask for the node's GPU type; always done where a node has several
  std::string script;                    // whole text of the batch script
  std::vector<std::string> environment;  // "NAME=value"
  std::string directory;                 // its working directory
  int grant_seconds = 0;                 // Slurm drops the job if it has not started within this time and a minute
  std::string output = {};               // file that its output is appended to; empty: none
  std::time_t begin = 0;                 // it starts no earlier
  bool immediate = false;                // fail unless the job can start now
};

// nullopt: Slurm does not know the job, or does not know it any more.
std::optional<SlurmJob> load_job(JobId id);
// The same of jobs of this user, without those that Slurm does not know. More than a few take one question.
std::map<JobId, SlurmJob> load_jobs(const std::set<JobId>& ids);
// The GRES of a node, as Slurm writes them; empty: it has none, or Slurm knows no such node or hides its nodes from
// users.
std::string gres_of(const std::string& node);
// GPUs of `node` that no job has. A completing job still has its GPUs. nullopt: Slurm hides its nodes from users.
std::optional<int> idle_gpus(const std::string& node);
// GPU types and numbers of these nodes, as far as Slurm knows them, without owners. Empty: Slurm hides its nodes from
// users.
std::vector<NodeView> load_nodes(const std::vector<std::string>& names);
// Returns the extension's job id.
JobId submit_extension(const ExtensionJob& job);
// Sends SIGKILL to every step that srun started in the job, except `except_step`. Then the end of the job does not wait
// for KillWait. Returns how many such steps there were.
int kill_steps(JobId id, std::optional<std::uint32_t> except_step = std::nullopt);
// Kills the steps of the job, then its batch script, then the job. `own_step`: the caller's, which is killed with the
// job.
void give_back(JobId id, std::optional<std::uint32_t> own_step = std::nullopt);
// Tells the processes of one step to end: they get SIGHUP.
void end_step(JobId id, std::uint32_t step);
// Has a batch job run once more. Its processes are killed.
void requeue(JobId id);
// The settings of Slurm that the launcher needs.
struct SlurmSite {
  std::string cluster;                 // ClusterName
  std::string auth_type;               // AuthType, as in "auth/munge"
  std::vector<uid_t> planner_uids{0};  // users that may run espalierd: root and SlurmUser
  // Whether a TaskPlugin binds processes to CPUs. Without one srun complains about --cpu-bind.
  bool binds_cpus = false;
  int kill_wait_seconds = 0;  // from the notice at a job's time limit to the kill
  int backfill_seconds = 30;  // between two looks of the backfill scheduler (bf_interval)
  // By partition: from the notice of a preemption to the kill. 0: KillWait.
  std::map<std::string, int> grace_seconds;
};
// `extension_qos`: where Slurm preempts by QOS, the GraceTime of this QOS counts for every partition.
SlurmSite load_site(const std::string& extension_qos);

}  // namespace espalier::launcher
