// One history: a small cluster, its jobs, the planner, and what befalls them, all from one seed.
#pragma once

#include <set>

#include "launcher/job/launcher.hpp"
#include "launcher/node/tenure.hpp"
#include "planner/daemon/gate.hpp"
#include "planner/daemon/planner.hpp"
#include "tests/sim/slurm_model.hpp"
#include "tests/sim/training.hpp"

namespace espalier::sim {

// Thrown out of the middle of an event when its process is killed there; no std::exception, so that no handler stops
// it.
struct Crash {};

struct LauncherProcess {
  PartyPtr party;
  JobId job = 0;
  std::unique_ptr<launcher::Launcher> launcher;  // null: gone
  std::multimap<int, Callback> signals;
  JobPhase seen = JobPhase::launching;  // its state after the last event
  int changes = 0;                      // of state
  int struck = 0;                       // those after which a fault was drawn
  wire::Keep keep;                      // the last one that its own vault was told
};

struct PlannerProcess {
  PartyPtr party;
  std::unique_ptr<wire::Loop> loop;
  std::unique_ptr<SlurmAgent> agent;
  std::unique_ptr<Planner> planner;
  std::unique_ptr<Gate> gate;
  std::unique_ptr<wire::Listener> listener;
};

struct KeeperProcess {
  PartyPtr party;
  JobId job = 0, anchor = 0;
  std::unique_ptr<launcher::Tenure> tenure;
  EndPtr line;
  std::string host, token;
  std::uint16_t port = 0;
  bool leaving = false;
  wire::Keep keep;  // the last one heard
};

class History {
 public:
  static constexpr const char* kHead = "head";
  static constexpr std::uint16_t kPlannerPort = 7321;

  History(std::uint64_t seed, Mutant mutant, bool log);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  // Empty: every invariant held for all of it, or for its first `most` events.
  std::string run(long most);
  const std::vector<std::string>& log() const { return log_; }
  long steps() const { return timeline.steps(); }

  // ---- for the parts
  Timeline timeline;
  Random random;
  Network network;
  Mutant mutant;
  PartyPtr born;             // whose loop is being made
  bool slurm_fails = false;  // the call that is being carried out finds no slurmctld
  bool answer_lost = false;  // ... or is carried out, and its answer never comes
  bool disk_full = false;
  std::unique_ptr<SlurmModel> slurm;
  std::unique_ptr<Training> training;
  std::map<JobId, LauncherProcess> launchers;
  // When a call to slurmctld from `node`, begun now, is carried out and how: sets the two flags above around `work`.
  Seconds call_slurm(const std::string& node, const std::function<void()>& work);
  template <class Text>
  void note(Text text) {  // `text` makes the line; not called when there is no log
    if (logging_) add_line(text());
  }
  void violate(const std::string& what);
  wire::Config config;

 private:
  friend class Faults;
  friend class Invariants;
  void start_planner();
  void kill_planner(Seconds back_after);
  void start_launcher(const SimJob& job);
  void end_launcher(LauncherProcess& process, bool with_node);
  void start_keeper(const SimJob& job);
  void keeper_looks(const std::shared_ptr<KeeperProcess>& keeper);
  void keeper_turns(const std::shared_ptr<KeeperProcess>& keeper);
  void keeper_ticks(const std::shared_ptr<KeeperProcess>& keeper);
  void keeper_leaves(const std::shared_ptr<KeeperProcess>& keeper);
  void kill_keeper(KeeperProcess& keeper, bool with_node);
  void signal_launcher(JobId job, int number);
  void datagram(const std::string& text);
  void slurm_started(const SimJob& job);
  void slurm_killed(const SimJob& job);
  void add_line(const std::string& text);

  bool logging_;
  std::vector<std::string> log_;
  std::string violation_;
  std::unique_ptr<Store> store_;
  PlannerProcess planner_;
  std::map<JobId, std::shared_ptr<KeeperProcess>> keepers_;  // by extension
  std::unique_ptr<class Invariants> invariants_;
  std::unique_ptr<class Faults> faults_;
  int crash_in_ = 0;  // `crash_party_` dies in the middle of its send number this; 0: it does not
  PartyPtr crash_party_;
  Seconds chaos_until_ = 0;
  bool calm_ = false, done_ = false;
};

History& history();  // the one that runs

}  // namespace espalier::sim
