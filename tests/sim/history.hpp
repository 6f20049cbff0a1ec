// One history: a small cluster, its jobs, the planner, and faults, all from one seed.
#pragma once

#include <set>

#include "planner/daemon/gate.hpp"
#include "planner/daemon/planner.hpp"
#include "planner/wire/config.hpp"
#include "planner/wire/server.hpp"
#include "tests/sim/holders.hpp"
#include "tests/sim/keepers.hpp"
#include "tests/sim/slurm_model.hpp"
#include "tests/sim/training.hpp"

namespace espalier::launcher {
class Launcher;
struct JobContext;
}  // namespace espalier::launcher

namespace espalier::sim {

// Thrown when a process is killed in the middle of an event. Not derived from std::exception, so that no handler stops
// it.
struct Crash {};

struct LauncherProcess {
  PartyPtr party;
  JobId job = 0;
  bool movable = false;
  int floor = 0;  // MIN of --elastic, if the user gave it
  Seconds ended = 0;
  int restarts = 0;                              // how often Slurm had requeued the job when it started
  std::unique_ptr<launcher::Launcher> launcher;  // null: the process is gone
  std::multimap<int, Callback> signals;
  JobPhase seen = JobPhase::launching;  // its state after the last event
  int changes = 0;                      // how often its state changed
  int struck = 0;                       // `changes` at the last draw of a fault
  wire::Keep keep;                      // the last Keep for the vault of the launcher's node
};

struct PlannerProcess {
  PartyPtr party;
  std::unique_ptr<wire::Loop> loop;
  std::unique_ptr<SlurmAgent> agent;
  std::unique_ptr<Planner> planner;
  std::unique_ptr<Gate> gate;
  std::unique_ptr<wire::Listener> listener;
};

class History {
 public:
  static constexpr const char* kHead = "head";
  static constexpr std::uint16_t kPlannerPort = 7321;

  // `movable`: most of its elastic jobs are. `arena`: the planner has that policy, and there are two types of GPU.
  History(std::uint64_t seed, Mutant mutant, bool log, bool movable = false, bool arena = false);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  // Runs the history, or its first `most` events. Returns the invariant that broke; empty: all held.
  std::string run(long most);
  const std::vector<std::string>& log() const { return log_; }
  long steps() const { return timeline.steps(); }

  // ---- for the parts of the simulation
  Timeline timeline;
  Random random;
  Network network;
  Mutant mutant;
  const bool movable, arena;
  PartyPtr born;             // the process whose loop is being made
  bool slurm_fails = false;  // the call that is being carried out finds no slurmctld
  bool answer_lost = false;  // the call is carried out, and its answer never comes
  bool disk_full = false;
  std::unique_ptr<SlurmModel> slurm;
  std::unique_ptr<Training> training;
  std::unique_ptr<Holders> holders;
  std::unique_ptr<Keepers> keepers;
  std::map<JobId, LauncherProcess> launchers;
  // Schedules a call to slurmctld from `node`. `work` carries out the call, with the two flags above set for it.
  // Returns the delay of the call.
  Seconds call_slurm(const std::string& node, const std::function<void()>& work);
  template <class Text>
  void note(Text text) {  // `text` makes the line; it is not called if there is no log
    if (logging_) add_line(text());
  }
  void violate(const std::string& what);
  int restarts_of(const PartyPtr& launcher) const;
  bool superseded(JobId job, const PartyPtr& launcher) const;  // Slurm has requeued its job
  wire::Config config;

 private:
  friend class Faults;
  friend class Invariants;
  friend class BaseInvariants;
  void start_planner();
  void kill_planner(Seconds back_after);
  void start_launcher(const SimJob& job);
  launcher::JobContext context_of(const SimJob& job);
  void end_launcher(LauncherProcess& process, bool with_node);
  void signal_launcher(JobId job, int number);
  void datagram(const std::string& text);
  void slurm_started(const SimJob& job);
  void slurm_killed(const SimJob& job);
  void kill_on(const std::string& node, JobId job, int restarts);
  void add_line(const std::string& text);

  bool logging_;
  std::vector<std::string> log_;
  std::string violation_;
  std::unique_ptr<Store> store_;
  PlannerProcess planner_;
  // Launchers on nodes that are cut off, whose jobs Slurm has started elsewhere.
  std::vector<std::map<JobId, LauncherProcess>::node_type> cut_off_;
  std::unique_ptr<class Invariants> invariants_;
  std::unique_ptr<class Faults> faults_;
  // After this many sends, the last of which is not done, `crash_party_` dies. 0: it does not die.
  int crash_in_ = 0;
  PartyPtr crash_party_;
  Seconds chaos_until_ = 0;
  bool calm_ = false, done_ = false;
};

History& history();  // the history that runs

}  // namespace espalier::sim
