// The planner's core. An event makes the planner ask Slurm. The scheduler decides on the answer.
// The planner records the decision and proposes it to the job's launcher. The launcher's outcome
// completes the record. All of this runs on the loop's thread, except for the scheduler: it decides on a thread of its
// own, and what it decided is looked at again before it is proposed (decision_check.hpp).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "planner/core/schedule/better_place.hpp"
#include "planner/core/schedule/deadline_forecast.hpp"
#include "planner/core/schedule/first_plan.hpp"
#include "planner/core/schedule/move.hpp"
#include "planner/core/scheduler.hpp"
#include "planner/daemon/allowance.hpp"
#include "planner/daemon/leases.hpp"
#include "planner/daemon/limit_waits.hpp"
#include "planner/daemon/live_job.hpp"
#include "planner/daemon/loop_time.hpp"
#include "planner/daemon/node_health.hpp"
#include "planner/daemon/planner_observer.hpp"
#include "planner/daemon/planner_settings.hpp"
#include "planner/daemon/planner_view.hpp"
#include "planner/daemon/planning_input.hpp"
#include "planner/daemon/releases.hpp"
#include "planner/daemon/site_cache.hpp"
#include "planner/daemon/slow_links.hpp"
#include "planner/daemon/slow_nodes.hpp"
#include "planner/daemon/slurm_agent.hpp"
#include "planner/daemon/store.hpp"
#include "planner/daemon/strays.hpp"
#include "planner/daemon/submissions.hpp"
#include "planner/daemon/unfit_nodes.hpp"
#include "planner/daemon/user_log.hpp"
#include "planner/wire/movable_message.hpp"
#include "planner/wire/side_thread.hpp"

namespace espalier {

class Planner {
 public:
  // `loop`, `slurm` and `store` must outlive the planner. Decisions that an earlier run left open
  // are closed.
  Planner(wire::Loop& loop, SlurmAgent& slurm, Store& store, const PlannerSettings& settings);
  void configure(const PlannerSettings& settings);
  void observe(PlannerObserver* observer) {
    observer_ = observer;
  }  // must outlive the planner, or be taken back by null

  // ---- events
  void job_submitted();
  void gpus_released(JobId job, const std::string& node);
  void topology_reported(const std::string& node, const std::string& xml);  // hwloc's `xml`
  // Asks Slurm and decides. If a question is under way, another one follows its answer.
  void think(Trigger trigger);

  // ---- launchers
  // `link` has been authenticated. The launcher is admitted when Slurm confirms that the job runs
  // and belongs to the peer. Otherwise it is refused.
  void admit(const wire::ConnectionPtr& link, const wire::Register& message);
  void status(JobId job, const ElasticJob& news);
  void looked(JobId job, const LinkLook& look);  // at its links, of the plan of its last status
  void transition(const wire::Transition& message);
  void outcome(const wire::Outcome& message);
  void bases(const wire::BasesHeld& message);  // of a movable job
  void lost(JobId job, const wire::ConnectionPtr& link);
  void bye(JobId job, int exit_code);
  std::optional<JobId> job_of(const wire::Connection& link) const;

  // ---- users. All throw Error on failure.
  void hold(JobId job, bool held);
  std::int64_t reclaim(JobId job);
  // Replaces the base of a movable job by another one, or changes where it waits: returns 0 then, else the decision.
  std::int64_t migrate(JobId job, const MoveWish& wish);
  // What was learnt from earlier jobs. Running jobs that still rely on it lose it too. Throws Error
  // where there is none.
  void forget(std::int64_t knowledge);

  // ---- for answers
  const std::map<JobId, LiveJob>& jobs() const { return jobs_; }
  // The number of `user`'s jobs: those in jobs(), or those that run in Slurm if these are more. After a restart all of
  // a user's launchers come back before one of them is in jobs(). Kept up to date, because every message asks for it.
  std::size_t jobs_of(uid_t user) const;
  // Those of them that can be elastic: with GPUs, or registered. A job without GPUs may register, because a movable job
  // has its GPUs in its base. So beyond kJobsWithoutGpus there are no more of them than the user has GPUs.
  std::size_t elastic_jobs_of(uid_t user) const;
  // What a user's launchers may cost is in proportion to this: elastic jobs, and the GPUs that the user's jobs hold.
  std::size_t weight_of(uid_t user) const;
  static constexpr std::size_t kJobsWithoutGpus = 16;
  // The loop's time that messages of `user` have taken, and seconds until the next one may be read.
  void charge_time(uid_t user, double seconds);
  double time_until(uid_t user);
  // For all lines that a user's messages cause.
  UserLog& log() { return log_; }
  wire::Loop& loop() { return loop_; }
  const std::shared_ptr<const SlurmSnapshot>& last_snapshot() const { return last_; }  // null: none yet
  // For answers on another thread. What launchers reported within a moment may be missing in it, and nothing else: with
  // n jobs the moment is about as long as it takes to copy 20 n jobs.
  std::shared_ptr<const PlannerView> view();
  std::optional<std::string> slurm_trouble() const { return trouble_; }
  uid_t slurm_user() const;
  const PlannerSettings& settings() const { return settings_; }
  Store& store() { return store_; }
  const std::shared_ptr<const Site>& site() const { return site_; }  // null: Slurm has not answered yet
  // The plan of generation 0 of `job`, whose GPUs `slurm` confirms: with extensions where `measured` says that they
  // pay. Needs site(). Throws Error where no plan fits.
  Decision start_decision(ElasticJob job, const std::optional<JobCoefficients>& measured, RankOrder order,
                          const SlurmSnapshot& slurm) const;

 private:
  struct Applicant {
    std::weak_ptr<wire::Connection> link;
    wire::Register message;
  };
  // Work that one user's launchers have recently asked of the planner.
  struct Prompting {
    Allowance allowance;
    std::optional<Trigger> waiting;  // asks Slurm when the next permission comes
    wire::Watch later;
  };
  // think() for a message of a user's process. A user has a burst of five, then one a second.
  // Triggers in between are merged.
  void think_for(uid_t user, Trigger trigger);
  // A decision that is being made, and what it was made from.
  struct TrialJob {
    JobId id = 0;
    PlanTrials trials;
    int most = 0;  // plans that it may try in all
  };
  struct Deciding {
    Trigger trigger;
    std::map<std::string, double> moments;
    PlanningInput input;
    Arrivals arrivals;                   // input.arrivals points to it
    std::optional<double> submitted_at;  // answered by this decision
    std::shared_ptr<const PlannerSettings> settings;
    double began = 0;                 // seconds since the epoch
    std::vector<MovableJob> movable;  // whose bases may move to where the jobs train faster
    std::vector<TrialJob> trials;     // jobs that may try another plan
    std::vector<Lease> leases;        // that end soon
  };
  struct Decided {
    std::vector<Decision> decisions;
    std::optional<Decision> move;   // of a base
    std::optional<Decision> trial;  // of another plan, or the fastest after trials
    std::vector<JobId> tried_out;   // jobs with nothing left to try
    std::vector<Renewal> renewals;
    std::shared_ptr<const std::vector<Weighed>> weighed;
    std::string failure;  // empty: none
  };
  void ask();
  void send_question();
  void answered(SlurmAgent::Snapshot answer);
  void review(const SlurmSnapshot& slurm);
  void take_early_topologies(const SlurmSnapshot& slurm);
  void admit_applicants(const SlurmSnapshot& slurm);
  void admit_now(const wire::ConnectionPtr& link, const wire::Register& message, const SlurmJob& slurm);
  // Ends jobs that Slurm has ended. A connected launcher has a minute to do so itself. A process that outlives its job
  // would otherwise keep the job, and a user could gather as many connections as there have been jobs.
  void forget_ended(const SlurmSnapshot& slurm);
  void end_unclaimed(const SlurmSnapshot& slurm);
  void note_allocations(const SlurmSnapshot& slurm);
  // Stops counting the usage of jobs that Slurm has suspended, requeued or ended, and counts on when they run again.
  void note_standstill(const SlurmSnapshot& slurm);
  void kill_strays(const SlurmSnapshot& slurm);
  // `live` without the extensions `leaving` (sorted), with a plan on the GPUs that are left. Needs last_. Throws Error
  // where no plan fits.
  Decision shrunk(const LiveJob& live, const std::vector<JobId>& leaving, Trigger trigger) const;
  // Asks for what jobs hold beyond extensions.max_gpus, some of them now and the others a moment later. What is not
  // given back in give_back_seconds() is ended.
  void keep_limit();
  void ask_back_beyond_limit();
  double give_back_seconds() const;
  std::vector<Lease> leases_now(const SlurmSnapshot& slurm);
  void prolong(const std::vector<Renewal>& renewals);
  void tell_preemption(const PreemptionRule& preemption);
  void close_overdue(double now);
  // Second bases for whose GPUs others have begun to wait.
  void withdraw_bases(const SlurmSnapshot& slurm);
  void decide(const SlurmSnapshot& slurm);
  // The move of a base for more speed: the policy's own, which leaves `decisions`, or one of `places`. Any thread.
  static std::optional<Decision> find_move(const Deciding& from, BetterPlaces& places,
                                           std::vector<Decision>& decisions);
  void decided(const Deciding& from, const Decided& result);
  void apply(const Deciding& from, const Decided& result);
  // Trials of plans (schedule/plan_trials.hpp).
  void note_trial(LiveJob& live);
  bool may_try(const LiveJob& live, double now) const;
  int most_trials(LiveJob& live, double now) const;
  std::vector<TrialJob> trials_now(double now);
  static void find_trial(const Deciding& from, Decided& result);  // any thread
  void apply_trial(const Deciding& from, const Decided& result);
  // What came while Slurm was asked and a decision was made gets its turn.
  void end_cycle();
  void drop(const Decision& decision, const Deciding& from, const std::string& why);
  // Moves the base of a movable job if a waiting job can start then. Until it can move, and while it moves, the GPUs
  // for its second base count as those of a waiting job in `input`.
  void make_room(PlanningInput& input, std::map<std::string, double> moments);
  // Movable jobs whose bases wait start on smaller ones, on GPUs that nobody else who waits could use. Their GPUs count
  // as taken in `input`.
  void start_smaller(PlanningInput& input, const std::map<std::string, double>& moments);
  // `decision` of move_to(), with trigger and reason.
  const SlurmJob* waiting_base(const LiveJob& live) const;
  void propose_move(LiveJob& live, Decision decision, std::map<std::string, double> moments);
  void count_out(uid_t user);  // a job of `user` has ended
  void count_running(const SlurmSnapshot& slurm);
  void propose(LiveJob& live, DecisionRecord record);
  // Sends the grants with which the launcher may submit what the decision acquires.
  void give_grants(const LiveJob& live, const Decision& decision) const;
  void plan_starts(const SlurmSnapshot& slurm);
  void plan_start(LiveJob& live, const SlurmSnapshot& slurm);
  std::optional<DeadlineForecast> forecast(const LiveJob& live, RankOrder order, const SlurmSnapshot& slurm) const;
  // Sends `known` if it differs from what the launcher was told last. `more`: nodes that the job
  // may get.
  void tell_known(LiveJob& live, const std::vector<ExtensionRequest>& more = {});
  void finish(LiveJob& live, DecisionRecord record, double now);
  void measure(LiveJob& live);
  // Proposes the way back where the job's last growth made its steps slower. `steps`: since it was committed.
  bool take_back(LiveJob& live, std::int64_t steps);
  void take_profile(LiveJob& live);
  void note_pause(LiveJob& live);
  void note_unfit_nodes(const LiveJob& live, double now);
  void note_slow_nodes(LiveJob& live, const Profile& profile);
  NodeFindings node_findings() const { return {&slow_nodes_, &unfit_nodes_, &slow_links_}; }
  void expect_rail(LiveJob& live);
  void save_coefficients(LiveJob& live);
  Json coefficients_record(const LiveJob& live) const;
  // Has the job's scale table made soon. The tables are made one at a time, in at most a fifth of the loop's time.
  void save_scale(LiveJob& live);
  void make_next_scale();
  void make_scale(LiveJob& live);
  void recall(LiveJob& live);
  bool restore(LiveJob& live);
  void learn_profile(LiveJob& live, double spread);
  void learn_change(LiveJob& live, const DecisionRecord& record);
  std::optional<Knowledge> row_of(const LiveJob& live) const;
  void save(LiveJob& live, double now);
  // The most GPUs that a plan of the job may have: the site's limit, or what Slurm has confirmed.
  int most_gpus(const LiveJob& live) const;
  void confirm_gpus(LiveJob& live) const;
  template <class Report>
  void check_gpus(LiveJob& live, const Report& report) const;  // throws Error
  // Whether the user may still have something written down now; charge_writes() afterwards.
  bool may_write(const LiveJob& live, double now);
  void charge_writes(const LiveJob& live, double now);
  void tell_excess(LiveJob& live, const char* what);

  wire::Loop& loop_;
  SlurmAgent& slurm_;
  Store& store_;
  PlannerObserver* observer_ = nullptr;
  PlannerSettings settings_;
  // Finds where movable jobs train faster; used as scheduler_ is.
  std::shared_ptr<BetterPlaces> places_ = std::make_shared<BetterPlaces>();
  std::shared_ptr<Scheduler> scheduler_;  // one decision at a time uses it, on deciding_thread_
  SiteCache sites_;
  std::shared_ptr<const Site> site_;  // hardware of the last snapshot's nodes
  std::map<JobId, LiveJob> jobs_;
  std::unordered_map<const wire::Connection*, JobId> by_link_;  // each message asks for its sender's job
  std::map<uid_t, std::size_t> jobs_by_user_;                   // of jobs_
  struct Running {
    std::size_t jobs = 0, with_gpus = 0;  // without extensions
    std::size_t gpus = 0;                 // with those of extensions
  };
  std::map<uid_t, Running> running_by_user_;  // in the last snapshot
  // An answer of Slurm's counts for launchers that came before it was asked for: those in applicants_.
  std::deque<Applicant> applicants_, next_applicants_;
  std::set<JobId> scale_due_;  // jobs whose scale table is to be made
  // Running or held jobs in the store that an earlier run left there. A job leaves the set when its
  // launcher registers or when it has ended.
  std::optional<std::set<JobId>> unclaimed_;             // not set: not read yet
  std::set<JobId> left_open_;                            // those of unclaimed_ that are not merely held
  std::map<std::string, std::string> early_topologies_;  // hwloc's XML, by node
  Releases releases_;
  NodeHealth health_;
  Submissions submissions_;
  Strays strays_;
  StraySince ended_since_;         // of jobs whose launcher is connected though Slurm has ended them
  std::size_t ending_strays_ = 0;  // whose end Slurm has been asked for, and has not answered
  Leases leases_;
  Allocations allocations_;
  LimitWaits limit_waits_;
  SlowNodes slow_nodes_;
  SlowLinks slow_links_;
  UnfitNodes unfit_nodes_;
  std::optional<PreemptionRule> preemption_told_;  // as it was last logged

  bool asking_ = false;    // from the question to Slurm until what follows of its answer has been decided
  bool deciding_ = false;  // the last part of that time
  double began_at_ = 0;    // when Slurm's answer came
  double asked_at_ = 0;
  double rest_until_ = 0;           // no question to Slurm before
  std::optional<Trigger> trigger_;  // strongest trigger since the last decision
  std::optional<Trigger> again_;    // strongest trigger while Slurm is being asked
  std::map<uid_t, Prompting> prompting_;
  // What a user's launchers may have recorded: acts of their own, transitions, and bytes of rows that
  // are written again and again. Enough for a job that is reconfigured without pause.
  Spending acts_{{15, 0.25}, {15, 0.25}};
  Spending transitions_{{200, 4}, {200, 4}};
  Spending writes_{{4 << 20, 128 << 10}, {4 << 20, 64 << 10}, {512 << 20, 16 << 20}};
  LoopTime loop_time_;
  UserLog log_{[this](uid_t user) { return elastic_jobs_of(user); }};
  // Of jobs that are ended: apart, so that no user hides these lines behind messages of his own.
  UserLog ended_log_{[this](uid_t user) { return elastic_jobs_of(user); }};
  std::optional<double> submitted_at_;
  std::shared_ptr<const SlurmSnapshot> last_;
  std::shared_ptr<const std::vector<Weighed>> weighed_ = std::make_shared<const std::vector<Weighed>>();
  std::shared_ptr<const PlannerSettings> settings_now_;  // a copy of settings_ that views share
  std::shared_ptr<const PlannerView> view_;              // null: what it would tell has changed
  double view_at_ = 0, view_cost_ = 0;
  int cluster_gpus_ = 0;  // the most that a snapshot has shown
  // Of strays_.beyond_limit(): how many jobs had no turn yet since the last look, and the last one that had. The next
  // look begins behind that one.
  std::size_t beyond_left_ = 0;
  JobId beyond_seen_ = 0;
  std::optional<std::string> trouble_;  // why Slurm does not answer; empty: it does
  wire::Watch poll_, soon_, again_soon_, look_again_, paced_, admitting_, scales_, more_starts_, more_beyond_;
  // Lets callbacks see whether the planner still exists when an answer comes.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  wire::SideThread deciding_thread_;  // goes first: a decision that is being made is waited for
};

}  // namespace espalier
