// The launcher's state machine: (state, event) -> (state, actions), one table, pure. The launcher feeds it
// events and carries out its actions; a simulation can do the same without Slurm or MPI.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::launcher {

enum class Event {
  world_ready,       // launching: generation 0 is ready
  propose_acquire,   // a new plan that needs extensions
  propose_direct,    // a new plan on GPUs the job has, from the planner or, when Slurm takes GPUs, from the launcher
  propose_restart,   // the same, and the running generation must end first: method `checkpoint`
  granted,           // every extension of the proposal runs and its keeper is here
  granted_restart,   // the same, and the running generation must end first
  acquire_failed,    // one was refused, lost or late
  next_ready,        // all workers of the next generation are ready
  next_failed,       // a worker or the world of the next generation is lost, or late
  old_stands,        // all workers of the old generation stand at one boundary, and some have state to give first
  old_switched,      // all workers of the old generation stand at one boundary, and have nothing left to give
  next_loaded,       // all workers of the next generation hold their state
  old_gone,          // the retired world has ended
  notice_breaks,     // Slurm takes an extension that the next generation counts on
  current_finished,  // training is complete
  current_lost,      // a worker, a node or the world of the running generation is lost, by no fault of the program
  current_failed,    // the program itself failed
  unrecoverable,     // nothing is left to recover on, or the same step fails again and again
  terminate,         // SIGTERM: the job is cancelled
};

enum class Action {
  start_training,  // commit generation 0
  submit_extensions,
  cancel_acquired,  // give back what was acquired for the failed proposal
  start_next,       // the ranks of generation g+1 beside g
  abort_next,       // kill it
  send_switch,      // to the old generation: stop at the next boundary
  begin_load,       // to the next generation: take the state but for what the old one is about to give
  send_load,        // to the next generation: take the state, or the rest of it
  resume_old,       // to the old generation: train on
  end_old,          // its state is in a checkpoint: it leaves, and cannot come back
  commit,           // the next generation is the job now; the old one leaves
  release_leaving,  // give back extensions that the committed plan does not use
  kill_old,         // it did not leave by itself
  abort_current,    // kill what is left of the lost generation
  start_recovery,   // the ranks of the generation that goes on, on the GPUs that are left
  send_recover,     // to it: find what state is left, and take it
  commit_recovery,  // it is the job now
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

// The row for (state, event); null: the event means nothing in this state and is ignored.
const Row* transition(JobPhase state, Event event);

std::string to_string(Event event);
std::string to_string(Action action);

}  // namespace espalier::launcher
