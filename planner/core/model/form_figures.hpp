// What a pipeline schedule costs on equal stages, for searches that look at very many plans: its time beyond that of
// the slowest stage, and the activations that it holds. From the simulation of its lists (planner/core/pipeline), kept
// by form, stages and micro-batches. (FlexTrain eqs. 1-5 are the same for interleaved 1F1B; the other schedules have no
// formula there.)
#pragma once

#include "planner/core/pipeline_form.hpp"

namespace espalier {

// Proportions of a stage's work on one micro-batch. The rest is the gradients of the inputs.
struct WorkShares {
  double forward = 1.0 / 3, weights = 0;
};

// x in T = N_b * M + x * (W - M), where M is the time of a micro-batch on the slowest stage and W the sum over the
// stages. 1F1B as printed by Suika has x = 1; here 1F1B has x = 1 - weights, because a gradient is sent before the
// work on the weights. More than 32 stages count as 32, with as many micro-batches in proportion.
double fill_share(PipelineForm form, int stages, int micro_batches, WorkShares work);

// By which share of its own backward pass a stage ends after the stage behind it.
inline double drain_share(PipelineForm form) {
  const std::string name = form.schedule();
  return name == "1f1b" || name == "gpipe" || name == "interleaved" ? 1.0 / form.chunks : 0;
}

// The most micro-batches whose activations the stage holds, from F to the end of B or W; all chunks of the stage count
// as equal. Exact for each number of stages. `recompute`: W is done with B.
double micro_batches_held(PipelineForm form, int stages, int micro_batches, int stage, bool recompute);

}  // namespace espalier
