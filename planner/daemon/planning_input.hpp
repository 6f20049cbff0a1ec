// Makes the scheduler's input from Slurm's snapshot and the launchers' reports. Pure. Launchers are
// users' processes, so a GPU or an extension that Slurm does not confirm is left out.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "planner/core/scheduler.hpp"
#include "planner/daemon/account_limits.hpp"
#include "planner/daemon/extension_rules.hpp"
#include "planner/daemon/limit_waits.hpp"
#include "planner/daemon/live_job.hpp"
#include "planner/daemon/slow_links.hpp"
#include "planner/daemon/slow_nodes.hpp"
#include "planner/daemon/slurm.hpp"
#include "planner/daemon/unfit_nodes.hpp"

namespace espalier {

// What jobs have found of nodes. Null: nothing.
struct NodeFindings {
  const SlowNodes* slow = nullptr;
  const UnfitNodes* unfit = nullptr;
  const SlowLinks* links = nullptr;
};

// Settings and hardware that stay the same between decisions.
struct PlanningContext {
  int max_gpus = 64;                 // per job
  std::string partition;             // where extensions run
  std::shared_ptr<const Site> site;  // the snapshot's nodes; null: unknown hardware
  const Arrivals* arrivals = nullptr;
  ExtensionRules rules = {};
  std::vector<LimitWaits::Wait> limit_waits = {};  // added to the snapshot's waiting jobs
  Objective objective = {};                        // its weights
  NodeFindings findings = {};
};

// For one snapshot, which must outlive it. One thread at a time.
class OpenNodes {
 public:
  OpenNodes(const SlurmSnapshot& slurm, NodeFindings findings, const ExtensionRules& rules);
  // Where no extension of the job is asked for: by the site's rules (ClosedNodes) and the job's types; where a growth
  // made its steps slower a short while ago; where its user's jobs found a node slow, its link, or its link to a node
  // of the job; and where workers of its user's other jobs died again and again. null: none. `job`: confirmed.
  NodeNames closed_to(const LiveJob& live, const ElasticJob& job, const SlurmJob& anchor);

 private:
  const SlurmSnapshot& slurm_;
  ClosedNodes closed_;
  NodeFindings findings_;
};

// `job` with only the GPUs and extensions that Slurm confirms for it. Its max_gpus is at most
// `max_gpus`.
ElasticJob confirmed(const ElasticJob& job, const SlurmSnapshot& slurm, int max_gpus);

// `job`, which claims as its own also the GPUs on which its workers have died again and again. Those that are
// another's, as an extension's, are left to confirmed().
ElasticJob with_unfit(ElasticJob job);

// Whether Slurm has suspended the job, its base or an extension of it. It trains no step then, and where it is the job
// or the base, nobody reads what it is sent.
bool is_suspended(const ElasticJob& job, const SlurmSnapshot& slurm);

// The extensions and bases that run, sorted by the job that they are for, so that not all of Slurm's jobs are gone
// through again for each node of each growth. For one snapshot, which must outlive it.
class LentJobs {
 public:
  explicit LentJobs(const SlurmSnapshot& slurm);
  // By node: GPUs that Slurm has granted to new extensions of the job, or to a second base, since its open decision.
  std::map<std::string, int> granted_since(const LiveJob& live) const;

 private:
  std::map<JobId, std::vector<const SlurmJob*>> by_job_;
};

// The most GPUs that the job may have: its own limit, and its present GPUs with what [share] leaves to its account.
int most_by_account(const ElasticJob& confirmed, const AccountLimits& limits, const SlurmJob& anchor);

// The nodes on which the job has GPUs.
std::set<std::string> held_nodes(const ElasticJob& job);

// The only GPU type that extensions of `job` may have; empty: any (schedule/gpu_type.hpp).
std::string kept_type(const ElasticJob& job, const ClusterView& cluster);

// A job is left out while its launcher is not connected, while it has an open decision, while Slurm
// preempts it or has suspended it, and for a while after a failure. GPUs promised to an open growth count as taken.
// GPUs of an open shrink count as about to be idle.
PlanningInput make_input(const SlurmSnapshot& slurm, const std::map<JobId, LiveJob>& jobs, Trigger trigger,
                         const PlanningContext& context);

}  // namespace espalier
