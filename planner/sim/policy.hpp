// Policies: the deciding part of a simulation. Each policy has a small file in
// planner/sim/policies/.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/core/scheduler.hpp"
#include "planner/sim/job_kind.hpp"
#include "planner/sim/redeployment.hpp"

namespace espalier::sim {

// Order of the base queue. sjf: least remaining GPU time on the basic plan first. Both are strict:
// a job that does not fit blocks the jobs behind it. backfill: the order of submission, but a job may
// start before the first one that does not fit if this does not delay that one's expected start by
// the time limits of all jobs. slurm: the order of priority/multifactor (slurm_priority.hpp), with the main
// scheduler, which is strict, and sched/backfill, which reserves nodes for every job that it looks at (start_plan.hpp).
enum class QueueOrder { fifo, sjf, backfill, slurm };
std::string to_string(QueueOrder order);

// A job's time limit under backfill, as a multiple of its time on its basic plan. Users ask for more
// than they need. Under slurm this is so only where SimulatedJob::time_limit is not set.
inline constexpr double kTimeLimit = 2;

// One job of the workload.
struct SimulatedJob {
  JobId id = 0;  // 1, 2, ... in the order of submission
  double submit = 0;
  std::size_t kind = 0;  // index into the table of kinds
  double iterations = 0;
  std::string trace_id;
  bool elastic = true;  // false: it keeps the GPUs and the plan of its submission
  // Elastic, and its own GPUs are a Slurm job of their own (the base), as those of `srun
  // --elastic=MIN:MAX,movable,base=N` are: under a policy with Policy::base_moves() it may start on a smaller base, and
  // its base may move.
  bool movable = false;
  int type = -1;  // the GPU type that it asks for, an index into Hardware::types; -1: any
  // A policy that chooses types (Policy::chooses_types) may run it on another type, too.
  bool any_type = true;
  double deadline = 0;  // on the clock of `submit`; 0: none
  // Seconds that its user asks for, under QueueOrder::slurm (time_limits.hpp). 0: kTimeLimit times its time on its
  // basic plan.
  double time_limit = 0;
};

// A job in the system: submitted and not complete.
struct SimulatedJobState {
  JobId id = 0;
  const SimulatedJob* job = nullptr;
  // Contains the basic plan. kind->coefficients are the TRUE ones.
  const JobKind* kind = nullptr;
  // The coefficients that a policy may know. They may contain an injected error.
  const JobCoefficients* coefficients = nullptr;
  // The plan that it runs or is being redeployed from. nullopt: it waits.
  std::optional<Plan> plan;
  // Policies must not act on it: such acts are refused.
  bool redeploying = false;
  double started = -1;  // first start; below 0: not started yet
  int started_on = -1;  // GPU type of its own GPUs; -1: it has not started, or was stopped
  double iterations_left = 0;
  double step_seconds = 0;  // true step time on `plan`; 0: it waits
  double last_change = -1;  // time of its last start, stop or redeployment
  int restarts = 0;         // redeployments and restarts so far, without the first start
  int most_gpus = 0;        // the largest number of GPUs it has run on
  double gpu_seconds = 0;   // GPU time received so far
  double waited = 0;        // seconds without GPUs until its last start
  // The same until `now`.
  double waited_until(double now) const {
    return plan ? waited : waited + now - (last_change > job->submit ? last_change : job->submit);
  }
};

struct SimulatedView {
  // The scheduler's input as the daemon gives it: now, trigger, cluster (owners of all GPUs; the
  // waiting jobs), site, the running jobs as ElasticJobs, coefficients of running jobs, and so on.
  // `site` is never null.
  const PlanningInput& input;
  // All jobs in the system, waiting and running, sorted by id (that is: by submission).
  const std::vector<const SimulatedJobState*>& jobs;
  // The waiting ones among them in the order of the base queue, also where the policy starts jobs itself.
  std::span<const SimulatedJobState* const> waiting = {};
};

// With a plan: the job shall run it from now on. A waiting job starts; a running job is redeployed.
// nullopt: the job stops, waits again, and later continues from its state.
struct Act {
  JobId job = 0;
  std::optional<Plan> plan;
  std::string reason;
  std::vector<JobId> release;  // extensions given back; only with keeps_basic()
  // Simulated time that the decision took. A running job continues on its old plan until then.
  double thought_seconds = 0;
  // With Policy::base_moves(): the base of this job moves there, and `plan` is ignored. Only the first such act counts.
  std::vector<ExtensionRequest> base = {};
};

// What a policy does with movable jobs beside its decisions, as espalierd does (planner/daemon/planner_moves.cpp).
struct BaseMoves {
  const SchedulerOptions* scheduler = nullptr;
  double least_gain = 1.1;    // planner.migrate_gain; below 1: bases move for waiting jobs only
  bool own_switches = false;  // the policy decides on another type of GPU itself (Act::base)
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string name() const = 0;
  // Seconds between rounds. 0: the policy decides at every event instead (a job arrived, started,
  // was profiled, ended, was redeployed). Infinity: never.
  virtual double period() const { return 0; }
  // For policies that decide at events: they are asked once more this many seconds after each
  // redeployment.
  virtual double cooldown() const { return 0; }
  virtual Method redeployment() const { return Method::checkpoint; }
  // True: the policy starts waiting jobs itself. False: the base queue starts them, in strict
  // order, each on its basic plan.
  virtual bool owns_queue() const { return false; }
  // Of a policy that owns the queue. True: which waiting job it takes first follows from the base queue's order.
  virtual bool admits_in_queue_order() const { return false; }
  // The base queue's order if the policy requires one. nullopt: the simulation's order.
  virtual std::optional<QueueOrder> queue() const { return std::nullopt; }
  // The most GPUs that one job may have under this policy. 0: no limit.
  virtual int most_gpus() const { return 0; }
  // True: jobs have an anchor and extensions (Suika §3.2.3). A started job never loses the GPUs of
  // its basic plan. False: a job holds exactly the GPUs of its plan, all of them as its anchor.
  virtual bool keeps_basic() const { return false; }
  // Of a policy that keeps_basic(). nullopt: it takes movable jobs as any other.
  virtual std::optional<BaseMoves> base_moves() const { return std::nullopt; }
  // True: what the profile of a job showed is known of later jobs of its kind when they start on a GPU
  // type on which one was profiled. Such a job may grow before its first step (a wide start), at no cost
  // beyond its first start.
  virtual bool shares_profiles() const { return false; }
  // True: a job that asks for a GPU type, but accepts any, may get another one from this policy.
  virtual bool chooses_types() const { return false; }
  // True: the policy plans by the performance model. It is refused where jobs have measured times.
  virtual bool needs_coefficients() const { return false; }
  // True: a job's plan is known before it starts (Arena §3.6), so that the search for it is short.
  virtual bool prunes_search() const { return false; }
  // True: the policy would change jobs that are not elastic. It is refused where there are such jobs.
  virtual bool needs_elastic_jobs() const { return false; }
  // All acts of one call are applied together, at most one per job. A plan may use GPUs that
  // another job gives up in the same call. (With overlap, device and adopt a job gives up GPUs only
  // at the end of its redeployment: other plans must not use them before.) A plan must be valid,
  // fit into memory by the true coefficients, and use only idle GPUs, the job's own, or GPUs given
  // up in the same call. Otherwise the simulation ends with an Error that names the policy.
  virtual std::vector<Act> decide(const SimulatedView& view) = 0;
};

}  // namespace espalier::sim
