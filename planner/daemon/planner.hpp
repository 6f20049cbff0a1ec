// The planner's heart: an event makes it ask Slurm, the scheduler decides on the answer, the decision is recorded and
// proposed to the job's launcher, and what comes of it completes the record. On the loop's thread only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/core/scheduler.hpp"
#include "planner/daemon/allowance.hpp"
#include "planner/daemon/live_job.hpp"
#include "planner/daemon/releases.hpp"
#include "planner/daemon/site_cache.hpp"
#include "planner/daemon/slurm_agent.hpp"
#include "planner/daemon/store.hpp"
#include "planner/daemon/strays.hpp"

namespace espalier {

struct PlannerSettings {
  SchedulerOptions scheduler;
  HardwareOverrides hardware;
  std::string partition;
  int max_gpus = 64;
  double poll_seconds = 2;
  double outcome_seconds = 180;  // a proposal without an outcome by then is closed
  double boundary_seconds = 0;   // ... so much later while its launcher says that the hand-off is at a boundary
  bool shadow = false;           // decide and record, propose nothing
};

class Planner {
 public:
  // All three must outlive the planner. Decisions left open by an earlier run are closed.
  Planner(wire::Loop& loop, SlurmAgent& slurm, Store& store, const PlannerSettings& settings);
  void configure(const PlannerSettings& settings);

  // ---- events
  void job_submitted();
  void gpus_released(JobId job, const std::string& node);
  void topology_reported(const std::string& node, const std::string& xml);  // hwloc's, of a trusted sender
  void think(Trigger trigger);  // asks Slurm and decides, as soon as the question under way is answered

  // ---- launchers. `link` has been authenticated; the launcher is admitted when Slurm confirms that the job runs and
  // is the peer's, and refused otherwise.
  void admit(const wire::ConnectionPtr& link, const wire::Register& message);
  void status(JobId job, const ElasticJob& news);
  void transition(const wire::Transition& message);
  void outcome(const wire::Outcome& message);
  void lost(JobId job, const wire::ConnectionPtr& link);
  void bye(JobId job, int exit_code);
  std::optional<JobId> job_of(const wire::Connection& link) const;

  // ---- users. Throw Error when it cannot be.
  void hold(JobId job, bool held);
  std::int64_t reclaim(JobId job);

  // ---- for answers
  const std::map<JobId, LiveJob>& jobs() const { return jobs_; }
  std::size_t jobs_of(uid_t user) const;  // how many of jobs(); asked for each frame, so they are not counted then
  const std::optional<SlurmSnapshot>& last_snapshot() const { return last_; }
  const Weighed* weighed(JobId job) const;  // by the last decision; null: it had no say. Valid until the next one
  std::optional<std::string> slurm_trouble() const { return trouble_; }
  uid_t slurm_user() const;
  const PlannerSettings& settings() const { return settings_; }
  Store& store() { return store_; }

 private:
  struct Applicant {
    std::weak_ptr<wire::Connection> link;
    wire::Register message;
  };
  // What a user's launchers have made the planner think of late.
  struct Prompting {
    Allowance allowance;
    std::optional<Trigger> waiting;  // until there is another permission
    wire::Watch later;
  };
  // As think(), for what a user's process says: a few at once, then one a second; what comes between is put together.
  void think_for(uid_t user, Trigger trigger);
  void ask();
  void send_question();
  void answered(SlurmAgent::Snapshot answer);
  void review(const SlurmSnapshot& slurm);
  void admit_applicants(const SlurmSnapshot& slurm);
  void admit_now(const wire::ConnectionPtr& link, const wire::Register& message, const SlurmJob& slurm);
  void forget_ended(const SlurmSnapshot& slurm);
  void end_unclaimed(const SlurmSnapshot& slurm);
  void note_extensions(const SlurmSnapshot& slurm);
  void kill_strays(const SlurmSnapshot& slurm);
  void close_overdue(double now);
  void decide(const SlurmSnapshot& slurm);
  void count_out(uid_t user);  // one of its jobs is over
  void propose(LiveJob& live, DecisionRecord record);
  void finish(LiveJob& live, DecisionRecord record, double now);
  void measure(LiveJob& live);
  void take_profile(LiveJob& live);
  void note_pause(LiveJob& live);
  void save_coefficients(const LiveJob& live);
  void save(LiveJob& live, double now);

  wire::Loop& loop_;
  SlurmAgent& slurm_;
  Store& store_;
  PlannerSettings settings_;
  std::unique_ptr<Scheduler> scheduler_;
  SiteCache sites_;
  std::shared_ptr<const Site> site_;  // of the last snapshot
  std::map<JobId, LiveJob> jobs_;
  std::map<uid_t, std::size_t> jobs_by_user_;
  std::vector<Applicant> applicants_;
  // Jobs that the store has as running or held, from an earlier run, and no launcher has registered since.
  std::optional<std::set<JobId>> unclaimed_;  // not set: not looked up yet
  Releases releases_;
  Strays strays_;

  bool asking_ = false;
  double asked_at_ = 0;
  std::optional<Trigger> trigger_;  // the strongest since the last decision
  std::optional<Trigger> again_;    // came while Slurm was being asked
  std::map<uid_t, Prompting> prompting_;
  std::optional<double> submitted_at_;
  std::optional<SlurmSnapshot> last_;
  std::optional<std::string> trouble_;  // why Slurm does not answer
  wire::Watch poll_, soon_, again_soon_, look_again_, paced_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // answers may come after the planner's end
};

}  // namespace espalier
