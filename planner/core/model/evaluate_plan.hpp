// The model's prediction for one real plan, with all parts of the time and the memory. Used by the
// scheduler, the daemon, the simulator and `espalier plan`.
#pragma once

#include <string>
#include <vector>

#include "planner/core/model/memory.hpp"
#include "planner/core/model/placed_plan.hpp"

namespace espalier {

// Times in ms of the slowest replica: of one micro-batch (forward, backward) or of one iteration
// (gradients, optimizer).
struct StagePrediction {
  StageTime time;
  double comp_fwd = 0, comp_bwd = 0;  // computation
  double comm_fwd = 0, comm_bwd = 0;  // tensor-parallel all-reduces
  double gradients = 0;               // the whole gradient synchronization
  // The part of `gradients` that the backward pass does not hide.
  double sync = 0;
  double optim = 0;
  MemoryParts memory;   // of the GPU whose memory is fullest in proportion to its capacity
  double capacity = 0;  // bytes of that GPU that a plan may fill (Hardware::memory_share)
};

struct Prediction {
  double printed_ms = 0;  // W + S + X (A.2)
  double exact_ms = 0;    // the recurrence of 1F1B, with boundary transfers
  std::vector<StagePrediction> stages;
  bool feasible = false;
  std::string why_not;  // one sentence, empty when feasible
};

// Does not throw for an impossible plan: the result is infeasible and `why_not` gives the reason.
// An infeasible plan has times only if memory or a TP degree is the only reason. `job` must have
// GpuCoefficients for every type of `hardware`.
Prediction evaluate_plan(const Hardware& hardware, const Topology& topology, const JobCoefficients& job,
                         const Plan& plan);

// The same for a plan that is placed already.
Prediction evaluate_plan(const Hardware& hardware, const JobCoefficients& job, const PlacedPlan& plan);

}  // namespace espalier
