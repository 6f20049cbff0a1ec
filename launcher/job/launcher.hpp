// One elastic job: wires its rooms. Each event of one room goes to the state machine or to other rooms, and each action
// of the state machine to the room that carries it out. Single-threaded on its loop.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/base/bases.hpp"
#include "launcher/job/actions.hpp"
#include "launcher/job/control_socket.hpp"
#include "launcher/job/ending.hpp"
#include "launcher/job/generation_zero.hpp"
#include "launcher/job/hand_off.hpp"
#include "launcher/job/held_gpus.hpp"
#include "launcher/job/list_search.hpp"
#include "launcher/job/losses.hpp"
#include "launcher/job/machine.hpp"
#include "launcher/job/movable_training.hpp"
#include "launcher/job/notices.hpp"
#include "launcher/job/phase_deadline.hpp"
#include "launcher/job/program.hpp"
#include "launcher/job/reports.hpp"
#include "launcher/node/anchor_keepers.hpp"
#include "launcher/recovery/recovery.hpp"
#include "launcher/slurm/extensions.hpp"
#include "launcher/world/rank_servers.hpp"
#include "planner/wire/clock.hpp"

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
  JobPhase phase() const { return machine_.phase(); }
  bool owns(JobId extension) const { return extensions_.known(extension); }

 private:
  // The wiring, in wiring.cpp.
  ControlSocket::Callbacks of_socket();
  Extensions::Callbacks of_extensions();
  Bases::Callbacks of_bases();
  PlannerLink::Callbacks of_planner();
  HeldGpus::Callbacks of_gpus();
  Machine::Callbacks of_machine();
  Generations::Callbacks of_generations();
  GenerationZero::Callbacks of_generation_zero();
  HandOff::Callbacks of_hand_off();
  Notices::Callbacks of_notices();
  Recovery::Callbacks of_recovery();
  Ending::Callbacks of_ending();
  MovableTraining::Callbacks of_movable();
  ListSearch::Callbacks of_list_search();

  void settle();
  void set_deadline();
  void propose(const Decision& decision);
  void stepped(const wire::Step& step);
  void begin();  // generation 0, once the job has GPUs
  void watch_signals();

  JobContext context_;
  const std::chrono::steady_clock::time_point began_ = wire::steady_now();
  wire::Loop loop_;
  Directory directory_;
  BlockingThread slurm_;
  ControlSocket socket_;
  Extensions extensions_;
  Bases bases_;  // of a movable job; else it does nothing
  RankServers rank_servers_;
  std::unique_ptr<Reports> reports_;  // made last: it tells of all the others
  AnchorKeepers keepers_;
  HeldGpus gpus_;
  Machine machine_;
  PhaseDeadline deadline_;
  Program program_;
  EarlierGenerations earlier_;
  StepWatch steps_;
  Generations generations_;
  GenerationZero generation_zero_;
  HandOff hand_off_;
  Notices notices_;
  Recovery recovery_;
  Ending ending_;
  ListSearch list_search_;
  MovableTraining movable_;
  Losses losses_;
  Actions actions_;
  std::vector<wire::Watch> watches_;  // for signals and heartbeats
};

}  // namespace espalier::launcher
