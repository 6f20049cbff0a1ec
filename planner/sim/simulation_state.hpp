// One run of the simulator: its jobs, GPUs and events. The parts are in simulation_*.cpp, the loop
// is in simulation.cpp. Internal: other code uses simulation.hpp.
#pragma once

#include <limits>
#include <map>
#include <set>

#include "planner/core/model/evaluate_plan.hpp"
#include "planner/sim/base_queue.hpp"
#include "planner/sim/event_queue.hpp"
#include "planner/sim/free_gpus.hpp"
#include "planner/sim/gpu_holders.hpp"
#include "planner/sim/live_job.hpp"
#include "planner/sim/movable_bases.hpp"
#include "planner/sim/simulation.hpp"
#include "planner/sim/start_plan.hpp"

namespace espalier::sim {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

class Simulation {
 public:
  Simulation(std::shared_ptr<const Site> site, const ClusterView& cluster, const std::vector<JobKind>& kinds,
             const std::vector<SimulatedJob>& jobs, Policy& policy, const SimulationOptions& options);

  PolicyRun run();

 private:
  friend class MovableBases;

  void plan_round();
  void note_level();

  // ---- events; true: a policy may want to decide now
  bool happen(const Event& event);
  bool arrive(const SimulatedJob& job);
  JobCoefficients mistaken(const SimulatedJob& job) const;
  bool begin(LiveJob& job);
  bool was_measured(const LiveJob& job) const;
  bool on_new_type(const LiveJob& job) const;
  void learn(const LiveJob& job);
  void await_profile(const LiveJob& job);
  bool profiled(LiveJob& job);
  void await_settling(const LiveJob& job);
  bool settled(LiveJob& job);
  bool tell_profile(const LiveJob& job);
  void ask_again(double time);
  bool pause(LiveJob& job);
  bool commit(LiveJob& job);
  bool train_no_more(LiveJob& job);
  bool complete(LiveJob& job);

  // ---- the base queue, starts, and Slurm's preemptions for a waiting job
  void start_waiting();
  void look_at_queue(double at);
  Plan basic_on(const SimulatedJobState& job, const std::vector<GpuId>& gpus) const;
  int type_of(const Plan& plan) const;
  std::set<int> types_of(const Plan& plan) const;
  void serve_queue();
  void start_those_that_fit();
  void backfill(FreeGpus& free, const SimulatedJobState& head);
  void ask_for_backfill(double at);
  bool backfill_by_reservations();
  StartQuestion start_question() const;
  std::vector<PlannedStart> planned_starts() const;
  void start(LiveJob& job, Plan plan);
  void start_on(LiveJob& job, Plan plan, double step, std::vector<Holding> own, double queued);
  ElasticJob as_elastic(const LiveJob& job) const;
  ElasticJob& add_elastic(const LiveJob& job);
  bool preempts() const;
  std::vector<JobId> victims_for(const SimulatedJobState& head) const;
  void preempt(const std::vector<JobId>& victims);
  static bool holds(const ElasticJob& elastic, JobId extension);
  void take_back(LiveJob& job, const std::vector<JobId>& extensions);
  void leave(LiveJob& job);
  void give_up_growth(LiveJob& job);

  // ---- the policy's decisions
  void think();
  double end_of(const LiveJob& job) const;
  double expected_end(JobId owner) const;
  [[noreturn]] void refuse(const Act& act, const std::string& why) const;
  void apply(const std::vector<Act>& acts);
  bool overlaps() const;
  void give_up(LiveJob& job, const Act& act);
  void stop(LiveJob& job);
  void enact(LiveJob& job, const Act& act);
  void begin_change(LiveJob& job, ElasticJob& elastic, Plan plan, double step, const RedeployCost& cost);
  void extend(LiveJob& job, ElasticJob& elastic, const Act& act);
  const Holding& check_holds(const Act& act, const ElasticJob& elastic, JobId extension) const;
  void check_idle(const Act& act, const std::vector<Holding>& wanted, const std::set<JobId>& or_owned_by);

  // ---- plans and GPUs of jobs
  Prediction predict(const LiveJob& job, const Plan& plan) const;
  bool feasible(const LiveJob& job, const Plan& plan) const;
  double true_step(const LiveJob& job, const Plan& plan) const;
  void run_on(LiveJob& job, ElasticJob& elastic, Plan plan, double step);
  void hold_exactly(LiveJob& job, ElasticJob& elastic, const Plan& plan);
  void recount(LiveJob& job, const ElasticJob& elastic);
  void drop_extension(LiveJob& job, ElasticJob& elastic, JobId extension);
  void forget(JobId id);
  ElasticJob* elastic_job(JobId id);

  const std::vector<JobKind>& kinds_;
  const std::vector<SimulatedJob>& jobs_;
  Policy& policy_;
  const SimulationOptions& options_;
  PlanningInput input_;
  GpuHolders holders_{input_};
  std::map<JobId, LiveJob> live_;
  std::vector<const SimulatedJobState*> present_;
  BaseQueue queue_;
  MovableBases bases_;
  const Preemption preempt_;  // what Slurm itself does
  EventQueue events_;
  Arrivals arrivals_;
  JobId next_extension_;  // of a Slurm job that is not one of the workload: an extension or a base
  std::map<std::size_t, std::set<int>>
      measured_types_;       // by kind: the GPU types on which a job of it has been profiled
  std::set<JobId> noticed_;  // extensions that Slurm has told to end
  int gpus_ = 0, allocated_ = 0, idle_rounds_ = 0;
  std::size_t done_ = 0;
  double wanted_ = 0;
  bool retry_pending_ = false, round_pending_ = false;
  double queue_at_ = kNever;        // time of Slurm's next look at the queue
  double new_jobs_at_ = -kNever;    // time of Slurm's last or next look because of a new job
  double backfilled_at_ = -kNever;  // time of the backfill scheduler's last pass
  bool backfill_pending_ = false;
  PolicyRun run_;
};

}  // namespace espalier::sim
