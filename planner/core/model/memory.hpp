// Peak memory of a GPU (Suika App. A.3).
#pragma once

#include "planner/core/model/stage_rates.hpp"
#include "planner/core/pipeline_form.hpp"

namespace espalier {

// Position of a stage in its pipeline.
struct StagePosition {
  int index = 0;   // from the front
  int stages = 1;  // PP
  int micro_batches = 1;
  PipelineForm form = {};
  // Micro-batches whose activations the stage holds at its peak, all its layers counted; 0: by the job's own
  // lists where they run, else by the form.
  double held = 0;
  bool first() const { return index == 0; }  // holds the model's first chunk
  bool last() const { return index == form.last_stage(stages); }
};

// StagePosition::held, or what the form holds on equal chunks.
double held_at(const JobCoefficients& job, const StagePosition& at);

struct MemoryParts {
  double param_optim = 0, activations = 0, gradients = 0, edge = 0;
  double peak = 0;  // without M_overhead; compare it with Hardware::memory_share * capacity
};

// Peak memory of one GPU of a replica that processes `share` samples of every micro-batch. `dp` is
// the stage's DP degree (ZeRO-1 needs it).
// If N_b <= PP - i, all forwards end before the first backward. The paper then prints Mg = 0, which
// can be lower than the memory at the end of the backward pass. The peak here is Mp + max(Ma, Mg)
// then.
MemoryParts peak_memory(const JobCoefficients& job, int layers, int share, int tp, int dp, const StagePosition& at);

// The most layers that every GPU of the stage can hold. 0: not even one.
int layer_cap(const Hardware& hardware, const JobCoefficients& job, const StageShape& shape, const Shares& shares,
              const StagePosition& at);

}  // namespace espalier
