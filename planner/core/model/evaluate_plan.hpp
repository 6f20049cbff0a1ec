// What the model says of one real plan, with all its parts: for explanations, for `espalier plan`, and to invert.
#pragma once

#include <string>
#include <vector>

#include "planner/core/model/memory.hpp"
#include "planner/core/model/placed_plan.hpp"

namespace espalier {

// ms of one micro-batch (forward, backward) or of one iteration (gradients, optimizer); the slowest replica's.
struct StagePrediction {
  StageTime time;
  double comp_fwd = 0, comp_bwd = 0;  // computation
  double comm_fwd = 0, comm_bwd = 0;  // tensor-parallel all-reduces
  double gradients = 0;               // the whole gradient synchronization
  double sync = 0;                    // what the backward pass does not hide of it
  double optim = 0;
  MemoryParts memory;   // of the GPU that is fullest in proportion
  double capacity = 0;  // bytes that a plan may fill of it (Hardware::memory_share)
};

struct Prediction {
  double printed_ms = 0;  // W + S + X (A.2)
  double exact_ms = 0;    // the recurrence of 1F1B, with boundary transfers
  std::vector<StagePrediction> stages;
  bool feasible = false;
  std::string why_not;  // one sentence, empty when feasible
};

// Never throws for a plan that cannot be: it is infeasible and says why; no times then unless only memory or a TP
// degree forbids it. `job` must have a GpuCoefficients for every type of `hardware`.
Prediction evaluate_plan(const Hardware& hardware, const Topology& topology, const JobCoefficients& job,
                         const Plan& plan);

// The same for a plan that is placed already.
Prediction evaluate_plan(const Hardware& hardware, const JobCoefficients& job, const PlacedPlan& plan);

}  // namespace espalier
