// Slurm as the daemon needs it: one snapshot, and ending a job. Behind an interface, so that tests bring their own.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/core/cluster.hpp"
#include "planner/core/preemption.hpp"
#include "planner/daemon/fair_shares.hpp"

namespace espalier {

// Owner of a GPU that Slurm counts as used but no job in sight holds.
inline constexpr JobId kUnknownOwner = static_cast<JobId>(-1);

// For so long after its submission a job is left to Slurm, which starts it or begins to preempt for it when it first
// looks at it; SchedulerParameters=batch_sched_delay is 3 s unless the site says otherwise.
inline constexpr double kLeftToSlurmSeconds = 5;

// After so long Slurm's backfill scheduler has looked at a job more than once (bf_interval is 30 s unless the site says
// otherwise), each time with the extensions that it may preempt out of the way. A start that it expects this much later
// is then no guess.
inline constexpr double kSlurmHasLookedSeconds = 75, kStartsLaterSeconds = 60;

enum class SlurmJobState { pending, running, completing, ended };

// Whose limit a job waits for. Those of one job alone, such as MaxTRESPerJob, are none: no other job counts there.
enum class LimitOf { none, qos, user_in_qos, account_in_qos, account, user_in_account };

struct SlurmJob {
  JobId id = 0;
  uid_t uid = 0;
  std::string name, comment, partition;
  std::string account, qos;           // empty where the site has no accounting
  std::string features, reservation;  // its constraint and its reservation; empty: none
  LimitOf limit = LimitOf::none;      // pending
  std::string limit_qos;              // the QOS that the limit is in, where it is in one
  std::optional<double> fair_share;   // of its user in its account, from 0 to 1 (FairShares)
  double priority = 0;
  SlurmJobState state = SlurmJobState::pending;
  std::vector<Holding> holdings;  // running and completing
  bool preempted = false;         // still running, but Slurm has told it to leave
  bool suspended = false;         // running, and Slurm has stopped its processes: none of them reads a message
  double submitted = 0;           // seconds since the epoch
  int wanted_gpus = 0;            // in total, as requested
  double started = 0;             // running, completing and ended: when; 0: never
  double ends = 0;                // running: when its time limit is over; 0: not known
  double ended = 0;               // completing and ended: when, seconds since the epoch
};

int gpus_of(const std::vector<Holding>& holdings);
inline int gpus_of(const SlurmJob& job) { return gpus_of(job.holdings); }

struct Reservation {
  std::set<std::string> nodes;
  double start = 0, end = 0;  // seconds since the epoch
  bool whole_nodes = true;    // false: of some of their cores only
  bool flexible = false;      // its jobs may use other nodes, too
};

struct Account {
  std::string parent;    // empty: none
  bool limited = false;  // GrpTRES, GrpTRESRunMins or GrpJobs is set for the account as a whole
};
using Accounts = std::map<std::string, Account>;  // by name

struct SlurmSnapshot {
  double time = 0;  // when it was asked for, seconds since the epoch
  uid_t slurm_user = 0;
  std::string auth_type;      // AuthType, as in "auth/munge"
  bool private_jobs = false;  // PrivateData has "jobs": users do not see each other's
  ClusterView cluster;
  std::map<std::string, std::set<std::string>> features;    // active ones, by node
  std::map<std::string, std::set<std::string>> partitions;  // their nodes, by name
  // By node: the users of whom each keeps the extensions of all others away. One is the user to whom Slurm has given
  // the node (ExclusiveUser=YES of a partition, --exclusive=user). Where the partition of extensions has
  // ExclusiveUser=YES, they are all users who have a job there.
  std::map<std::string, std::set<uid_t>> owners;
  std::map<std::string, Reservation> reservations;  // by name; up to a minute old
  std::shared_ptr<const FairShares> shares;         // up to a minute old; null: the site has no accounting
  PreemptionRule preemption;                        // of extensions; up to a minute old
  std::vector<JobId> limited;  // for each limit of several jobs that jobs wait for: the one with the highest priority
  std::string extensions_qos;  // of the partition of extensions: they count in it as in their own; empty: none
  Accounts accounts;           // only while one of them waits for an account's; up to a minute old
  std::map<JobId, SlurmJob> jobs;  // those Slurm still knows, ended ones included

  // nullptr when Slurm does not know it, or only as ended.
  const SlurmJob* alive(JobId id) const;
  // Whether `account` is `above` or below it. Without accounting an account is below none.
  bool is_within(const std::string& account, const std::string& above) const;
};

// What rules of a site may name. Accounts and QOS are empty where the site has no accounting.
struct SlurmNames {
  std::set<std::string> accounts, qos, partitions;
};

class Slurm {
 public:
  virtual ~Slurm() = default;
  // Throws Error. Blocks for as long as Slurm's own time limits allow.
  virtual SlurmSnapshot snapshot() = 0;
  // Throws Error. Blocks as snapshot() does; a large site has many accounts, so it is asked seldom.
  virtual SlurmNames names() = 0;
  // Kills the job's steps first, then the job (the other order keeps it completing for KillWait). Throws Error.
  virtual void kill(JobId job) = 0;
  // Sets the time limit of a job that runs, in minutes from its start. Throws Error.
  virtual void prolong(JobId job, int minutes) = 0;
};

// By libslurm. `partition`: extensions go there; nodes outside it are not usable for growth. `qos`: of extensions
// ([extensions] qos; empty: none). `topology_file`: read where Slurm tells no switches (planner.topology_file; empty:
// none). One thread at a time.
std::unique_ptr<Slurm> make_slurm(const std::string& partition, const std::string& qos,
                                  const std::string& topology_file);

// The anchor named in an extension's comment "espalier:ext:<anchor>:<nonce>"; 0: not an extension's comment.
JobId anchor_of_comment(const std::string& comment);
// The movable job named in a base's comment "espalier:base:<job>:<nonce>"; 0: not a base's comment.
JobId submitted_of_base(const std::string& comment);

}  // namespace espalier
