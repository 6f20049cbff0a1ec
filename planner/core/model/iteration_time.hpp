// Iteration time of 1F1B from its stages' times (Suika App. A.2, "Modeling PP").
#pragma once

#include <span>

#include "planner/core/model/stage_rates.hpp"

namespace espalier {

// Times in ms of one stage whose layers are decided. fwd and bwd are of one micro-batch. extra is
// the exposed synchronization plus the optimizer.
struct StageTime {
  double fwd = 0, bwd = 0, extra = 0;
  // Sending one micro-batch's activations to the next stage, and the same for gradients back. The
  // printed form ignores it.
  double send = 0;
  // Part of bwd that the stage before does not wait for. The printed form ignores it.
  double late = 0;
};

// Load of a stage, including its edges. gradient_bytes is the sum over all TP ranks; tied
// parameters count once.
struct StageLoad {
  double compute_layers = 0;
  double gradient_bytes = 0;
};
StageLoad stage_load(const JobCoefficients& job, int layers, bool first, bool last);

// The part of the stage's gradient synchronization that its last backward pass does not hide, with ZeRO-1's gathering.
double stage_sync(const JobCoefficients& job, const StageRates& rates, int layers, bool first, bool last);

// Includes the edge terms: the embedding on the first stage, the LM head on the last stage.
StageTime stage_time(const JobCoefficients& job, const StageRates& rates, int layers, bool first, bool last);

// T = W + S + X as printed. It is exact for equal stages and for one micro-batch. Otherwise it is
// an upper bound (by up to 31%) if all stages have the same ratio of backward to forward. With
// different ratios it may, rarely, be some percent too low.
double printed_iteration(std::span<const StageTime> stages, int micro_batches);

// The same for other schedules (form_figures.hpp): W and S weighed by the share of W that the pipeline's filling costs,
// and X by the share of its backward pass by which a stage ends after the stage behind it. 1F1B as printed: 1 and 1.
double formed_iteration(std::span<const StageTime> stages, int micro_batches, double fill, double drain);

// The exact recurrence of 1F1B with per-stage warm-up min(PP-1-i, N_b), including the boundary
// transfers in `send`. Takes O(stages * micro_batches) time.
double exact_iteration(std::span<const StageTime> stages, int micro_batches);

}  // namespace espalier
