// The scheduler maps a snapshot to decisions. The daemon and the simulator run the same code.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/core/arrivals.hpp"
#include "planner/core/decision.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/schedule/arena/options.hpp"
#include "planner/core/schedule/flextrain/options.hpp"
#include "planner/core/schedule/idle_forecast.hpp"
#include "planner/core/schedule/move.hpp"
#include "planner/core/schedule/objective.hpp"
#include "planner/core/schedule/planning_basis.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// Names of nodes, sorted. Jobs share them.
using NodeNames = std::shared_ptr<const std::vector<std::string>>;

struct PlanningInput {
  double now = 0;  // seconds; passed in, the core has no clock
  Trigger trigger = Trigger::timer;
  ClusterView cluster;
  // Hardware and topology of the cluster's nodes. Pass the same object as long as the nodes do not
  // change: the scheduler keeps results computed for it. Null: the scheduler makes a site with
  // neutral hardware from the cluster view, anew for each decision.
  std::shared_ptr<const Site> site;
  std::vector<ElasticJob> jobs;  // sorted by id
  // Calibrated from profiles. A job without an entry is planned with assumed coefficients, which
  // come from its model's shape and its measured step time.
  std::map<JobId, JobCoefficients> coefficients;
  // Extensions of all elastic jobs, including jobs that are not in `jobs`; sorted. Extensions are
  // not basic demand.
  std::vector<JobId> extensions;
  // Time of each job's last reconfiguration, successful or not; absent: never.
  std::map<JobId, double> last_change;
  // Nodes where a job gets no extension: Slurm would refuse one there, or could not take it back.
  // Absent or null: there are none.
  std::map<JobId, NodeNames> closed;
  // Jobs of cluster.waiting that wait for a limit of the site, and not for GPUs of their own. The
  // extensions (sorted) count against the limit. As many of their GPUs as the job's `gpus` must be
  // given back, on whatever nodes.
  std::map<JobId, std::vector<JobId>> counted;
  // Measured pause of each job's reconfigurations; absent: SchedulerOptions::redeploy_seconds.
  std::map<JobId, double> redeploy_seconds;
  // Measured time that a generation of each job takes to start; absent:
  // SchedulerOptions::start_seconds.
  std::map<JobId, double> start_seconds;
  // Whose turn it is to grow: each job's benefits are multiplied by this before they are compared. Thresholds do not
  // change, so that idle GPUs find a job whatever its weight. Absent: 1. Policy `suika` as printed ignores it.
  std::map<JobId, double> weights;
  // Jobs whose plan was chosen by measurement among several on their GPUs, or is being so (schedule/plan_trials.hpp).
  // No prediction changes it while they keep these GPUs.
  std::set<JobId> tuned;
  // When each job was submitted, seconds since the epoch; for finish-time fairness. Absent: not known.
  std::map<JobId, double> submitted;
  // Movable jobs whose base may go to another type of GPU now, sorted by job. Policy `arena` alone looks at them.
  std::vector<MovableJob> movable;
  // Recent submissions of all jobs. Null: not known. It must outlive the decision.
  const Arrivals* arrivals = nullptr;
};

class PrefixSolver;

struct SchedulerOptions {
  int max_lease_minutes = 60;
  int kill_wait_seconds = 30;  // Slurm's KillWait; leases end that much earlier
  // Least time between two reconfigurations of one job. Reclaims for waiting jobs ignore it.
  double cooldown_seconds = 10;
  // tau = U^lambda (Suika §3.2.3); a larger lambda admits more growth.
  double lambda = 1;
  double hysteresis = 0.1;      // scale-outs are reclaimed only below tau * (1 - hysteresis)
  bool reclaim = true;          // reclaim scale-outs below the threshold when the cluster fills
  double least_gain = 1.02;     // least factor of throughput that a reconfiguration must promise
  double redeploy_seconds = 1;  // training time that a reconfiguration costs, if none was measured
  // Time from a decision to the new plan's first step; training goes on meanwhile.
  double start_seconds = 0;
  // Whose gains count how much. With as_printed it is jct, and short_first is 0.
  Objective objective;
  // Which job grows next. Not in the paper; used only with as_printed false. Benefits are
  // multiplied by (work left)^-short_first before they are compared (schedule/objective.hpp). 0 leaves
  // them alone, as the paper does. Thresholds do not change.
  double short_first = 1;
  // Extensions go from one job to another whose benefit, multiplied so, is more than this many
  // times as high (schedule/trades.hpp). Below 1: never, as in the paper.
  double trade = 2;
  // How long idle GPUs are taken to stay idle, unless `idle_forecast` says more.
  double idle_seconds = 300;
  // Forecasts it from PlanningInput::arrivals, with as_printed false. nullopt: `idle_seconds`, as always while
  // submissions are not known for long enough.
  std::optional<IdleForecastLimits> idle_forecast;
  // Fairness: a job's benefits are multiplied by this before they are compared. Empty: 1.
  std::function<double(const ElasticJob&)> discount;
  // Most scale-outs in one decision, which bounds its latency. The next decision uses the GPUs that
  // are left idle.
  int rounds = 64;
  int looks = 4096;  // most repeated looks at jobs in one decision, which bounds its latency
  int window = 8;    // W of Algorithm 1
  // True: the paper's search (policy `suika`). False: the planner's own search on top of it.
  bool as_printed = false;
  std::shared_ptr<PrefixSolver> solver;  // replaces Algorithm 1 (algorithm1.hpp); null: Algorithm 1
  // Keeps stages and TP degrees as submitted (policy `suika-dp`).
  bool data_parallel_only = false;
  // The policy `flextrain` or `flextrain-dp`. nullopt: Suika's algorithm, as printed or not.
  std::optional<FlextrainOptions> flextrain;
  // The policy `arena`. nullopt: another one.
  std::optional<ArenaPolicyOptions> arena;
  // Solves every job again in every round. The lazy rounds are measured against it.
  bool eager = false;
};

// The last decide()'s result for a job that it did not let grow, for people.
struct Weighed {
  JobId job = 0;
  int gpus = 0;                                        // GPUs of the best scale-out that the job could have had
  double benefit = 0;                                  // marginal benefit B of that scale-out, discounted
  double threshold = 0;                                // tau of that decision
  std::string verdict;                                 // one sentence
  std::optional<JobStanding> standing = std::nullopt;  // what the objective weighed; nullopt: the policy has none
};

// Deterministic: same inputs, same decisions. Not thread-safe.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual std::string name() const = 0;
  // At most one decision per job. Jobs without a change are absent. Jobs whose phase is not
  // `running` are left alone.
  virtual std::vector<Decision> decide(const PlanningInput& input) = 0;
  virtual const std::vector<Weighed>& weighed() const = 0;  // sorted by job
};

// Suika's Algorithm 2 (§3.2.3) over Algorithm 1. With as_printed false the planner's own search
// runs on top.
std::unique_ptr<Scheduler> make_suika_scheduler(const SchedulerOptions& options);

// By the options: Arena's scaling, FlexTrain's controller, or Suika's algorithm.
std::unique_ptr<Scheduler> make_scheduler(const SchedulerOptions& options);

// The best plan on a subset of the GPUs that the job has now. The planner uses it for a shrink. The
// launcher uses it when Slurm takes GPUs. `known`: the GPUs' memory and bandwidths and the job's
// coefficients; null or without these nodes: all GPUs count as equal and as large enough. The
// user's pp, dp and tp_degrees give way if no plan can keep them. nullopt: no valid plan fits.
std::optional<Plan> plan_on_subset(const ElasticJob& job, const std::vector<GpuId>& gpus,
                                   const PlanningBasis* known = nullptr);

}  // namespace espalier
