// The launcher's state machine: (state, event) -> (state, actions), in one table. Pure. The launcher passes events and
// carries out the actions. A simulation can do the same without Slurm or MPI.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::launcher {

enum class Event {
  world_ready,       // launching: generation 0 is ready
  wide_lost,         // launching: an extension that generation 0 was to start on is lost
  taken_over,        // launching: an earlier launcher of the job has left a base whose keepers hold its state
  propose_acquire,   // the planner proposes a plan that needs extensions
  propose_direct,    // a plan on GPUs that the job has, of the planner or, when Slurm takes GPUs, of the launcher
  propose_in_place,  // a plan in which all state stays where it is, and which the running generation can take
  propose_restart,   // as propose_direct, but the running generation must end first (method `checkpoint`)
  granted,           // every extension of the proposal runs and its keeper is connected
  granted_restart,   // as granted, but the running generation must end first
  acquire_failed,    // an extension of the proposal was refused, lost or late
  next_ready,        // all workers of the next generation are ready
  next_failed,       // the next generation is lost or late, or the old one does not give its state
  old_stands,        // all workers of the old generation stand at one boundary, and some have state to give first
  old_switched,      // all workers of the old generation stand at one boundary, and have nothing left to give
  next_loaded,       // all workers of the next generation hold their state
  old_gone,          // the retired generation has ended
  notice_breaks,     // an extension that the next generation needs is lost, or Slurm takes it
  current_finished,  // the program ended by itself, e.g. training is complete
  current_lost,      // the running generation is lost, by no fault of the program
  current_failed,    // the program or the launcher itself failed
  unrecoverable,     // no GPU is left, no attempt starts, or the same step fails again and again
  terminate,         // SIGTERM, SIGINT or SIGHUP, e.g. because the job is cancelled
};

enum class Action {
  start_training,  // commit generation 0
  start_alone,     // generation 0 anew, on the GPUs of the job's own
  submit_extensions,
  cancel_acquired,  // give back the extensions of the failed proposal
  start_next,       // start the ranks of the next generation beside the old one
  abort_next,       // kill the next generation
  send_switch,      // tell the old generation to stop at the next boundary
  ask_in_place,     // tell the running generation to stop at the next boundary, and ask whether it can take the plan
  begin_load,       // tell the next generation to take the state, except what the old one is about to give
  send_load,        // tell the next generation to take the state, or the rest of it
  resume_old,       // tell the old generation to train on
  go_on_in_place,   // tell the running generation to train on, with the proposed plan
  end_old,          // tell the old generation to leave for good: its state is in a checkpoint
  commit,           // the next generation becomes the job's; the old one leaves
  release_leaving,  // give back extensions that the committed plan does not use
  kill_old,         // kill what is left of the old generation
  abort_current,    // kill what is left of the lost generation
  start_recovery,   // start a generation that goes on, on the GPUs that are left
  send_recover,     // tell that generation to find the state that is left, and to take it
  commit_recovery,  // that generation becomes the job's
  report_committed,
  report_aborted,
  end_job,  // stop both worlds, release all, exit with the current world's code
};

struct Row {
  JobPhase from;
  Event on;
  JobPhase to;
  std::vector<Action> actions;
};

std::span<const Row> transition_table();

// The row for (state, event). Null: the event means nothing in this state and is ignored.
const Row* transition(JobPhase state, Event event);

// Whether a generation does its steps in this state, beside whatever else happens.
bool trains(JobPhase state);

std::string to_string(Event event);
std::string to_string(Action action);

}  // namespace espalier::launcher
