// The bases of a simulation's movable jobs, as launchers and espalierd treat them (launcher/base, planner/daemon).
// Where a base may be is decided by the daemon's own code (core/schedule: smaller_base, better_place, defragment,
// move).
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "planner/core/schedule/better_place.hpp"
#include "planner/core/schedule/smaller_base.hpp"
#include "planner/sim/live_job.hpp"
#include "planner/sim/redeployment.hpp"

namespace espalier::sim {

class Simulation;

// Simplified:
// - A base that the planner asks for starts at once, or not at all: Slurm is asked whether it would start it.
// - A base on which a program has no plan that fits is given back; in the product the job ends, because its MIN is
//   wrong.
class MovableBases {
 public:
  // `simulation` outlives this object.
  MovableBases(Simulation& simulation, std::optional<BaseMoves> moves) : sim_(simulation), moves_(moves) {}

  bool has(const LiveJob& job) const { return moves_ && job.state.job->movable; }
  // The job whose base has this id; 0: none.
  JobId job_of(JobId base) const;

  void arrived(const LiveJob& job);  // it was submitted
  // Before the policy decides: smaller bases start, and a base begins to make room for a waiting job.
  void before_decision();
  // Takes the moves of bases out of the policy's acts. The first one.
  std::optional<Act> take_wish(std::vector<Act>& acts) const;
  // A base moves as the policy wishes, or to a better place with what the policy leaves idle.
  void after_decision(const std::optional<Act>& wish);

  JobId new_base(LiveJob& job);  // the number of its first base, which starts
  // Slurm has granted the base for which the job waits while it trains on a smaller one.
  void granted(LiveJob& job, const Plan& basic);
  // The job's redeployment commits, and was the move: the second base is its base now.
  void take_second(LiveJob& job, ElasticJob& elastic);
  // After a start or a redeployment. True: the job has begun to move, or leaves the base before.
  bool go_on(LiveJob& job);
  // An event of the job: true: GPUs came free, or a smaller base may be looked for.
  bool happen(LiveJob& job, JobId base);
  // The job trains no more: it waits for no base.
  void stop_waiting(LiveJob& job);
  // The job ends: all are given back.
  void end(LiveJob& job);

 private:
  JobId number_for(const LiveJob& job);
  std::vector<WaitingJob> waiting() const;
  WaitingJob shown_whole(const SimulatedJobState& job, std::size_t place) const;
  ClusterView seen_with(std::vector<WaitingJob> waiting) const;
  WaitingPlan serve(std::vector<WaitingJob> waiting) const;
  void start_smaller(const std::vector<WaitingJob>& waiting);
  int least_gpus(const LiveJob& job) const;
  void try_smaller(LiveJob& job, const std::vector<ExtensionRequest>& parts);
  std::optional<Plan> first_plan_on(const LiveJob& job, const std::vector<Holding>& base) const;
  std::vector<Holding> idle_on(const std::vector<ExtensionRequest>& parts, JobId base) const;
  bool slurm_starts(const LiveJob& job, const std::vector<Holding>& base) const;
  bool withdraw_hindering(const std::vector<WaitingJob>& waiting);
  void withdraw(LiveJob& job);
  void make_room(const std::vector<WaitingJob>& waiting);
  std::optional<std::vector<MovableJob>> movable_now(double rest);
  void move_to(LiveJob& job, const std::vector<ExtensionRequest>& parts, const std::vector<WaitingJob>& waiting);
  bool begin_move(LiveJob& job);
  ElasticJob seen_by_launcher(const LiveJob& job) const;
  std::optional<Plan> own_plan_on(const LiveJob& job, const std::vector<Holding>& base) const;
  void change(LiveJob& job, Plan plan);
  void give_back(LiveJob& job, std::vector<Holding>& base);
  PlanningBasis known_of(const LiveJob& job) const;

  Simulation& sim_;
  const std::optional<BaseMoves> moves_;
  BetterPlaces places_;
  std::map<JobId, JobId> jobs_;  // by base
  int present_ = 0;              // movable jobs in the system
};

}  // namespace espalier::sim
