// The step time of a plan from the profiles of its stages, each measured alone on one device, and from the bandwidths
// of the cluster's network as the performance model has them. As in Arena (§3.3) the computation is measured; Arena
// takes communication from a table of measured times. Pure.
#pragma once

#include <vector>

#include "planner/core/model/stage_profile.hpp"
#include "planner/core/topology/topology.hpp"

namespace espalier {

// Ms of the stage's slowest profiled replica: of one micro-batch (forward, backward, weight_gradient, send), or of one
// step.
struct ProfiledStage {
  double forward = 0, backward = 0, weight_gradient = 0;
  double sums = 0;       // the tensor-parallel all-reduces that forward and backward contain
  double send = 0;       // activations to the next stage; gradients come back as slowly
  double gradients = 0;  // the whole sum of gradients over the replicas
  double sync = 0;       // the part of it that the last backward pass does not hide
  double optimizer = 0;  // with ZeRO-1: and the gathering of the parameters
  double peak_bytes = 0;
};

struct ProfiledStep {
  double step_ms = 0;
  double tied_ms = 0;  // the exchange of the tied table's gradient, in step_ms
  std::vector<ProfiledStage> stages;
};

// Each stage needs a profile of one replica at least; of a stage with GPUs of several types, one for each type. The
// ranks agree after their sums of gradients and before their updates: the slowest of the one and the slowest of the
// other add up. Throws Error when profiles contradict each other, a stage has none, or the plan is not on the
// cluster.
ProfiledStep profiled_step(const Hardware& hardware, const Topology& topology,
                           const std::vector<StageProfile>& profiles);

}  // namespace espalier
