// One elastic job: feeds the state machine with what happens and carries out its actions. Single-threaded on its loop.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "launcher/job/grace.hpp"
#include "launcher/job/planner_link.hpp"
#include "launcher/job/profile_relay.hpp"
#include "launcher/job/state_machine.hpp"
#include "launcher/node/directory.hpp"
#include "launcher/recovery/faults.hpp"
#include "launcher/slurm/extensions.hpp"
#include "launcher/world/rank_servers.hpp"
#include "launcher/world/world.hpp"

namespace espalier::launcher {

class Launcher {
 public:
  // Throws Error when the job cannot even start. `keep` is called as the keepers of other nodes get a Keep: for the
  // vault of this node.
  explicit Launcher(JobContext context, std::function<void(const wire::Keep&)> keep = {});
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // Runs the job to its end; the exit code for srun. Throws Error only while nothing has been started.
  int run();

  // Its two halves. start(): generation 0 and what is watched. serve(): the loop, until it stops (true) or a callback
  // threw, which ends the job and not the launcher (false: serve again).
  void start();
  bool serve();
  // What the planner is told.
  ElasticJob state() const;
  JobPhase phase() const { return phase_; }
  bool owns(JobId extension) const { return extensions_->known(extension); }

 private:
  using Clock = std::chrono::steady_clock;

  // What is being changed: the planner's decision, or the launcher's own answer to a notice.
  struct Change {
    Decision decision;
    std::map<std::string, Clock::time_point> at;  // phase ends, for the outcome
    std::string why_aborted;
    std::int64_t boundary = 0;
    bool load_begun = false;
    std::map<std::string, double> load_phases_ms = {};
  };

  // From the loss of the running generation to the first step after it.
  struct Recovery {
    std::string why;       // what was lost, in words
    std::string last_try;  // why the attempt before this one failed
    Clock::time_point since;
    Clock::time_point last_loss;  // of the running generation or of an attempt
    std::int64_t last_step = 0;   // that was done
    Plan plan;                    // of the attempt under way
    std::map<std::string, Clock::time_point> at;
    std::optional<wire::Loaded> taken;  // once committed
    bool waits_for_slurm = false;       // and the user has been told
    std::optional<Clock::time_point> slurm_back;
  };

  struct AnchorKeeper {
    std::string node;
    wire::ConnectionPtr connection;  // null: gone
    int missed = 0;                  // heartbeats
  };

  void listen();
  void incoming(const wire::ConnectionPtr& connection);
  void greet_worker(const wire::ConnectionPtr& connection, const wire::Hello& hello);
  void greet_keeper(const wire::ConnectionPtr& connection, const wire::KeeperHello& hello);
  World* world_of(int generation) const;  // null: it is not running

  struct Raised {
    Event event;
    std::string why;
    bool by_world;
  };
  bool restarts() const { return handoff_ == HandoffMethod::checkpoint; }
  void raise(Event event, const std::string& why = "", bool by_world = false);
  void process(Event event, const std::string& why);
  void perform(Action action);
  void entered(JobPhase phase);
  void set_deadline(JobPhase phase);
  void wait_for_start(Event event, const char* why);

  std::unique_ptr<World> make_world(int generation, const Plan& plan, bool first);
  void start_next();
  void commit();
  void next_lost(const std::string& why);
  // The first step of the new generation took `step_seconds`; without: the job ends before.
  void finish_pause(std::int64_t step, std::optional<double> step_seconds = std::nullopt);
  void end_job();
  void finish_when_released(Clock::time_point give_up);
  void finish_when_left(Clock::time_point give_up);
  void drop(std::unique_ptr<World>& world);

  void heartbeat();
  void watch_steps();
  void check_steps();
  void lost(int generation, const Loss& loss);
  void extension_lost(const Holding& holding);
  void forget_events(bool of_next);
  void note_loss(const std::string& why);
  void abort_current();
  void doubt_nodes();
  void start_recovery();
  void try_recovery();
  // What Slurm says of the nodes of a lost generation.
  struct SlurmAnswer {
    std::set<JobId> closing;          // extensions where it starts no step any more
    std::set<std::string> withdrawn;  // nodes of the anchor that it has taken from the job: they are down
    std::string away;                 // why there is no answer
  };
  SlurmAnswer ask_slurm(const std::set<JobId>& jobs) const;  // blocks; on Slurm's thread
  void slurm_said(const SlurmAnswer& answer);
  void attempt_recovery();
  bool wait_for_doubts();
  void retry_recovery();
  struct RecoveryPlan {
    Plan plan;
    std::vector<GpuId> chosen;  // by the faults
  };
  std::optional<RecoveryPlan> choose_recovery_plan();
  void send_recover();
  void commit_recovery();
  void finish_recovery(const std::string& result);
  void succeed(const Plan& plan, std::int64_t step);
  void let_go(const wire::Step& step);
  bool makes_room();  // false: there is nothing to let go
  void tell_what_to_keep() const;
  wire::Keep what_to_keep() const;
  bool is_lost(const Holding& holding) const;
  std::set<GpuId> gpus_left() const;

  void first_hello(const wire::Hello& hello);
  void no_protocol();
  void propose(const Decision& decision);
  std::optional<std::string> refuse(const Decision& decision) const;
  void answer_notices();
  bool too_late_for(const std::set<JobId>& taken);
  void noticed(JobId extension);
  bool leaves(JobId extension) const;  // by the change under way
  void stepped(const wire::Step& step);
  void report(const std::string& result);
  std::vector<Holding> all_holdings(bool with_acquired) const;
  std::vector<Holding> usable(std::vector<Holding> holdings) const;
  std::vector<Holding> own_holdings() const;
  std::vector<std::string> environment(int generation) const;

  JobContext context_;
  wire::Loop loop_;
  Directory directory_;
  std::string token_, address_;
  std::unique_ptr<wire::Listener> listener_;
  BlockingThread slurm_;
  std::unique_ptr<Extensions> extensions_;
  std::unique_ptr<RankServers> rank_servers_;
  std::unique_ptr<PlannerLink> planner_;
  std::vector<AnchorKeeper> anchor_keepers_;  // each task of the step but the first; a node may have several
  std::set<std::string> lost_nodes_;          // of the anchor: not heard
  SlurmAnswer slurm_answer_;                  // the last
  int questions_ = 0;                         // to Slurm, and answers
  std::function<void(const wire::Keep&)> keep_;

  JobPhase phase_ = JobPhase::launching;
  std::unique_ptr<World> current_, next_, leaving_;
  Plan plan_;
  ModelShape model_;
  HandoffMethod handoff_ = HandoffMethod::adopt;
  std::int64_t step_ = 0, total_steps_ = 0;
  Clock::time_point crowded_until_{};  // when another generation was last beside the running one
  double step_seconds_ = 0;            // of the running generation, smoothed; 0: not known yet
  double last_step_seconds_ = 0;       // of any generation
  ProfileRelay profiles_;
  int generation_ = 0, last_generation_ = 0;            // committed; last number given out
  bool has_trained_ = false;                            // the committed one
  std::vector<wire::Assign::Source::Earlier> earlier_;  // what is left of those before it may still be needed
  std::optional<Change> change_;
  std::optional<Change> awaiting_first_step_;
  MeasuredPhases measured_;
  double early_seconds_ = 0;  // of the change under way: early_seconds()
  std::set<JobId> given_up_;  // extensions that go before the job can leave them
  Faults faults_;
  std::set<GpuId> died_, blamed_;  // in the loss that is being dealt with; and those that may be at fault
  std::optional<Recovery> recovery_;
  std::optional<int> loss_code_;  // for the job's exit code
  Clock::time_point started_at_{}, last_step_at_{}, last_status_{}, last_progress_{}, check_steps_at_{};
  bool has_spares_ = false;     // the program can be started ahead
  int spares_generation_ = -1;  // the last one after whose first step spares were asked for
  bool started_ = false, speaks_protocol_ = false, elastic_ = true, world_gone_ = false;
  int exit_code_ = 0;
  std::deque<Raised> events_;
  wire::Watch deadline_, protocol_deadline_, ending_, term_, interrupt_, hangup_, retry_notices_;
  wire::Watch heartbeat_, watchdog_, retry_recovery_;
  std::vector<wire::Watch> forwarded_;
};

}  // namespace espalier::launcher
