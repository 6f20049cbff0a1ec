// The scheduler: a function from a snapshot to decisions. The daemon and the simulator run the same object.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "planner/core/decision.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

struct PlanningInput {
  double now = 0;  // seconds; passed in, the core has no clock
  Trigger trigger = Trigger::timer;
  ClusterView cluster;
  // Hardware and topology of the cluster's nodes; kept as long as they do not change, since what was computed for a
  // site is kept with it. Null: made from the cluster view with neutral hardware, anew each time.
  std::shared_ptr<const Site> site;
  std::vector<ElasticJob> jobs;  // sorted by id
  // Calibrated from profiles. A job without an entry is planned with assumed coefficients: its model's shape and its
  // measured step time.
  std::map<JobId, JobCoefficients> coefficients;
  std::vector<JobId> extensions;  // of all elastic jobs, also those not in `jobs`; sorted. They are no basic demand.
  std::map<JobId, double>
      last_change;  // when a job was last reconfigured, whether that succeeded or not; absent: never
  std::map<JobId, double> redeploy_seconds;  // measured pause of a job's reconfigurations; absent: the option's
};

class PrefixSolver;

struct SchedulerOptions {
  int max_lease_minutes = 60;
  int kill_wait_seconds = 30;    // Slurm's KillWait, for the lease's length
  double cooldown_seconds = 10;  // between two reconfigurations of one job that nobody waits for
  double lambda = 1;             // tau = U^lambda (Suika §3.2.3); larger: bolder
  double hysteresis = 0.1;       // scale-outs are reclaimed below tau * (1 - hysteresis) only
  bool reclaim = true;           // take scale-outs below the threshold back when the cluster fills
  double least_gain = 1.02;      // a reconfiguration must promise this much more throughput
  double redeploy_seconds = 1;   // training time that a reconfiguration costs, where none was measured
  double start_seconds = 0;      // from a decision to the new plan's first step, beside training
  // Beyond the paper (as_printed false): whose turn is next. Benefits are compared after multiplying them by |R0| to
  // the power of minus this: 0 weighs a job by its GPUs, as the paper does; 1 counts every job alike, which is what an
  // average of completion times does. Thresholds are not touched.
  double small_first = 0.5;
  // How long `gpus` idle GPUs are likely to stay idle, seconds. Empty: `idle_seconds`.
  std::function<double(const PlanningInput&, int gpus)> likely_idle_seconds;
  double idle_seconds = 300;
  // Fairness: multiplies a job's benefits before they are compared. Empty: 1.
  std::function<double(const ElasticJob&)> discount;
  int rounds = 64;   // scale-outs in one decision at most; what is left idle is next decision's (bounds its latency)
  int looks = 4096;  // jobs looked at again in one decision at most, likewise
  int window = 8;    // W of Algorithm 1
  bool as_printed = false;               // policy `suika`: the paper's search; else the planner's own on top of it
  std::shared_ptr<PrefixSolver> solver;  // in Algorithm 1's place (algorithm1.hpp); null: Algorithm 1
  bool data_parallel_only = false;       // stages and TP degrees stay as submitted (policy `suika-dp`)
  bool eager = false;  // solve every job again in every round: what the lazy rounds are measured against
};

// What the last decide() thought of one job's growth, for people.
struct Weighed {
  JobId job = 0;
  int gpus = 0;          // of the best scale-out it could have had
  double benefit = 0;    // its B, discounted
  double threshold = 0;  // tau then
  std::string verdict;   // one sentence
};

// Deterministic: same inputs, same decisions. Not thread-safe; one owner.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual std::string name() const = 0;
  // At most one decision per job; jobs without a change are absent. Jobs whose phase is not `running` are left alone.
  virtual std::vector<Decision> decide(const PlanningInput& input) = 0;
  virtual const std::vector<Weighed>& weighed() const = 0;  // sorted by job
};

// Suika's Algorithm 2 (§3.2.3) over Algorithm 1; with as_printed false the planner's own search on top.
std::unique_ptr<Scheduler> make_suika_scheduler(const SchedulerOptions& options);

// The best plan on a subset of the GPUs the job has now (its mirror of growing): used by the planner for a shrink and
// by the launcher when Slurm takes GPUs while the planner is away. nullopt: nothing valid fits.
std::optional<Plan> plan_on_subset(const ElasticJob& job, const std::vector<GpuId>& gpus);

}  // namespace espalier
