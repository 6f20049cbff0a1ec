// One elastic job: wires its rooms. Each event of one room goes to the state machine or to other rooms, and each action
// of the state machine to the room that carries it out. Single-threaded on its loop.
#pragma once

#include <functional>

#include "launcher/job/job_signals.hpp"
#include "launcher/job/machine.hpp"
#include "launcher/job/phase_deadline.hpp"
#include "launcher/job/rooms.hpp"

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
  bool owns(JobId extension) const { return holding_.extensions.known(extension); }

 private:
  // The wiring, in wiring.cpp and wiring_training.cpp.
  ControlSocket::Callbacks of_socket();
  Extensions::Callbacks of_extensions();
  Bases::Callbacks of_bases();
  PlannerLink::Callbacks of_planner();
  Machine::Callbacks of_machine();
  Generations::Callbacks of_generations();
  GenerationZero::Callbacks of_generation_zero();
  Notices::Callbacks of_notices();
  Recovery::Callbacks of_recovery();
  MovableTraining::Callbacks of_movable();
  ListSearch::Callbacks of_list_search();
  LastCheckpoint::Callbacks of_last_checkpoint();

  void settle();
  void set_deadline();
  void propose(const Decision& decision);
  void stepped(const wire::Step& step);
  void begin();  // generation 0, once the job has GPUs

  Ground ground_;
  HoldingRooms holding_;
  Machine machine_;
  PhaseDeadline deadline_;
  TrainingRooms training_;
  AnswerRooms answers_;
  JobSignals signals_;
};

}  // namespace espalier::launcher
