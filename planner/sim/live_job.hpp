// A job in the simulated system, and its progress.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <vector>

#include "planner/sim/policy.hpp"

namespace espalier::sim {

// The bases of a movable job (launcher/base). Each is a Slurm job.
struct LiveBases {
  JobId id = 0;  // on which it starts or trains; 0: none yet
  // The plan with which it started on it, or moved to it: what is sure to fit on its GPUs alone.
  std::optional<Plan> own_plan;
  std::vector<Holding> next;  // of the one that it moves to; empty: none
  std::optional<Plan> next_own_plan;
  std::vector<Holding> before;  // of the one that it has left, until that is given back
  bool moving = false;          // the redeployment under way is the move to `next`, or away from `before`
  bool waits = false;           // the one that it asked for does, while it is on a smaller one
  bool giving_back = false;     // when `before` is given back is known
  bool wished = false;          // `next` is the planner's wish, and not the base for which the job waited
  std::set<JobId> waited;       // jobs that waited when that move began
  std::vector<double> moves;    // times of the planner's moves within the last hour, ascending
  int failures = 0;             // of smaller bases, one after the other
  double not_before = 0;        // no smaller base is asked for before then
  double looked = -1;           // when one was looked for last
  bool started_smaller = false;
  int moved = 0;  // by the planner's wish
};

struct LiveJob {
  SimulatedJobState state;  // the part that policies see
  // Coefficients that policies may know, if they differ from the true ones.
  std::unique_ptr<JobCoefficients> known;
  std::set<int> measured_types;  // on which it has been profiled, or another job of its kind before it began
  double since = 0;              // time up to which progress is accounted for
  bool training = false;
  bool stopped_before = false;  // it must load its state when it starts
  bool wide_start = false;      // its kind is known and it has not trained yet
  bool seen_by_slurm = false;   // Slurm has looked at it while it waits
  int held = 0;                 // GPUs that it holds
  double lost_gpu_seconds = 0;
  // Version of its training. Completions that were predicted in an earlier version are void.
  int speed_version = 0;
  int change_version = 0;  // version of its redeployments

  // The redeployment under way.
  std::optional<Plan> target;
  double target_step_seconds = 0;
  std::vector<JobId> leaving, arriving;  // extensions
  std::optional<double> pause_began;

  LiveBases bases;

  void advance(double now) {
    const double passed = now - since;
    since = now;
    state.gpu_seconds += held * passed;
    if (training) state.iterations_left = std::max(0.0, state.iterations_left - passed / state.step_seconds);
    else lost_gpu_seconds += held * passed;
  }
  // End of the step that is under way at `time`, where training may pause. Assumes one speed since
  // the last advance().
  double step_end(double time) const {
    if (!training) return time;
    const double done = state.job->iterations - state.iterations_left + (time - since) / state.step_seconds;
    return time + std::max(0.0, std::ceil(done - 1e-6) - done) * state.step_seconds;
  }
  double expected_end(double now) const { return now + state.iterations_left * state.step_seconds; }
};

}  // namespace espalier::sim
