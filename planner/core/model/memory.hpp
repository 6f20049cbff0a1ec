// Peak memory of a GPU (Suika App. A.3).
#pragma once

#include "planner/core/model/stage_rates.hpp"

namespace espalier {

// Where a stage stands in its pipeline.
struct StagePosition {
  int index = 0;   // from the front
  int stages = 1;  // PP
  int micro_batches = 1;
  bool first() const { return index == 0; }
  bool last() const { return index + 1 == stages; }
};

struct MemoryParts {
  double param_optim = 0, activations = 0, gradients = 0, edge = 0;
  double peak = 0;  // without M_overhead: compare with Hardware::memory_share * capacity
};

// One GPU of a replica that processes `share` samples of every micro-batch. `dp`: the stage's DP degree (ZeRO-1).
// Where all forwards end before the first backward (N_b <= PP - i) the paper prints Mg = 0, which can fall below the
// end of the backward pass; the peak here is Mp + max(Ma, Mg) then.
MemoryParts peak_memory(const JobCoefficients& job, int layers, int share, int tp, int dp, const StagePosition& at);

// Most layers that every GPU of the stage can hold; 0: not even one.
int layer_cap(const Hardware& hardware, const JobCoefficients& job, const StageShape& shape, const Shares& shares,
              const StagePosition& at);

}  // namespace espalier
