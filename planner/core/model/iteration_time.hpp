// Iteration time of 1F1B from its stages' times (Suika App. A.2, "Modeling PP").
#pragma once

#include <span>

#include "planner/core/model/stage_rates.hpp"

namespace espalier {

// One stage with its layers decided. ms; fwd and bwd of one micro-batch, extra = exposed sync + optimizer.
struct StageTime {
  double fwd = 0, bwd = 0, extra = 0;
  double send =
      0;  // activations of one micro-batch to the next stage (and gradients back); the printed form leaves it out
  double late = 0;  // of bwd, what the stage before does not wait for; likewise
};

// What a stage carries with its edges. gradient_bytes: whole, all TP ranks; what is tied counts once.
struct StageLoad {
  double compute_layers = 0;
  double gradient_bytes = 0;
};
StageLoad stage_load(const JobCoefficients& job, int layers, bool first, bool last);

// Edge terms that belong to the stage's position are added here: embedding on the first, LM head on the last.
StageTime stage_time(const JobCoefficients& job, const StageRates& rates, int layers, bool first, bool last);

// T = W + S + X as printed: exact for equal stages and for one micro-batch. Otherwise an upper bound (by up to 31%)
// where all stages have one ratio of backward to forward; where they have not, it may fall short by some percent,
// rarely.
double printed_iteration(std::span<const StageTime> stages, int micro_batches);

// The exact recurrence of 1F1B, O(stages * micro_batches), with the boundary transfers in `send`. 1F1B with
// per-stage warm-up min(PP-1-i, N_b).
double exact_iteration(std::span<const StageTime> stages, int micro_batches);

}  // namespace espalier
