// What decides in a simulation. One small file per policy in planner/sim/policies/.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/scheduler.hpp"
#include "planner/sim/job_kind.hpp"
#include "planner/sim/redeployment.hpp"

namespace espalier::sim {

// Of the base queue. sjf: by GPU time on the basic plan, least first. Strict: a job that does not fit blocks those
// behind it.
enum class QueueOrder { fifo, sjf };

// One job of the workload.
struct SimulatedJob {
  JobId id = 0;  // 1, 2, ... in the order of submission
  double submit = 0;
  std::size_t kind = 0;  // index into the table of kinds
  double iterations = 0;
  std::string trace_id;
};

// A job that is in the system: submitted and not complete.
struct SimulatedJobState {
  JobId id = 0;
  const SimulatedJob* job = nullptr;
  const JobKind* kind = nullptr;                  // its basic plan; kind->coefficients are the TRUE ones
  const JobCoefficients* coefficients = nullptr;  // what a policy may know: these may carry an injected error
  std::optional<Plan> plan;                       // that it runs, or is being redeployed from; nullopt: it waits
  bool redeploying = false;                       // leave it alone: acts on it are refused
  double started = -1;                            // first start; below 0: never yet
  double iterations_left = 0;
  double step_seconds = 0;  // true, on `plan`; 0: it waits
  double last_change = -1;  // when it last started, stopped or was redeployed
  int restarts = 0;         // redeployments and restarts so far, the first start not counted
  int most_gpus = 0;        // the largest number of GPUs it has run on
  double gpu_seconds = 0;   // attained so far
};

struct SimulatedView {
  // As the daemon gives it to the scheduler: now, trigger, cluster (owners of all GPUs; the waiting jobs), site, the
  // running jobs as ElasticJobs, coefficients of running jobs, ... `site` is never null.
  const PlanningInput& input;
  // All jobs in the system, waiting and running, sorted by id (that is: by submission).
  const std::vector<const SimulatedJobState*>& jobs;
};

// Where a plan is given the job shall run it from now on: a waiting job starts, a running one is redeployed. nullopt:
// stop it, it waits again and goes on later from where it was.
struct Act {
  JobId job = 0;
  std::optional<Plan> plan;
  std::string reason;
  std::vector<JobId> release;  // extensions given back; only of policies that keep basic demands
  // How long deciding it took, in simulated time: a running job trains on until then, on its old plan.
  double thought_seconds = 0;
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string name() const = 0;
  // Seconds between rounds; 0: it decides at every event instead (a job arrived, started, was profiled, ended, was
  // redeployed); infinity: never.
  virtual double period() const { return 0; }
  // Of a policy that decides at events: it wants to be asked once more so many seconds after each redeployment.
  virtual double cooldown() const { return 0; }
  virtual Method redeployment() const { return Method::checkpoint; }
  // Starts waiting jobs itself. Otherwise the base queue does so, in strict order, each on its basic plan.
  virtual bool owns_queue() const { return false; }
  // The base queue's order, where the policy insists on one; else the simulation's.
  virtual std::optional<QueueOrder> queue() const { return std::nullopt; }
  // The most GPUs that one job may have under it; 0: as many as there are.
  virtual int most_gpus() const { return 0; }
  // Anchor and extensions (Suika §3.2.3): a started job never loses the GPUs of its basic plan. Otherwise a job holds
  // exactly the GPUs of its plan, all of them as its anchor.
  virtual bool keeps_basic() const { return false; }
  // All acts of one call are taken together: GPUs that one job gives up may be in another one's plan. (With overlap,
  // device and adopt, GPUs are given up when the redeployment ends: other plans must not use them before.) At most one
  // act per job. A plan must be valid, fit into memory by the true coefficients, and use idle GPUs, the job's own, or
  // those given up in the same call; anything else ends the simulation with an Error that names the policy.
  virtual std::vector<Act> decide(const SimulatedView& view) = 0;
};

}  // namespace espalier::sim
