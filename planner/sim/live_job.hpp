// A job in the simulated system, and its progress.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "planner/sim/policy.hpp"

namespace espalier::sim {

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
