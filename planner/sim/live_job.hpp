// A job in the simulated system, and its progress.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>

#include "planner/sim/policy.hpp"

namespace espalier::sim {

struct LiveJob {
  SimulatedJobState state;                 // what policies see
  std::unique_ptr<JobCoefficients> known;  // what they may know, where it differs from the truth
  double since = 0;                        // progress is accounted for until then
  bool training = false;
  bool stopped_before = false;  // must load its state when it starts
  bool seen_by_slurm = false;   // while it waits
  int held = 0;                 // GPUs
  double lost_gpu_seconds = 0;
  int speed_version = 0;   // of its training: completions that were foreseen before are void
  int change_version = 0;  // of its redeployments

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
  // When the step ends that is under way at `time`, from the last advance() on at one speed: where training may pause.
  double step_end(double time) const {
    if (!training) return time;
    const double done = state.job->iterations - state.iterations_left + (time - since) / state.step_seconds;
    return time + std::max(0.0, std::ceil(done - 1e-6) - done) * state.step_seconds;
  }
  double expected_end(double now) const { return now + state.iterations_left * state.step_seconds; }
};

}  // namespace espalier::sim
