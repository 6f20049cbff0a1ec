// `espalier-train --profile-plan`: one stage of a plan on one device, without the stage's peers (Arena §3.3). No MPI,
// no data file and no checkpoint is touched.
#pragma once

#include <optional>

#include "planner/core/model/stage_profile.hpp"
#include "torchrt/config.hpp"
#include "torchrt/device/device.hpp"
#include "torchrt/profiler/unit_profiler.hpp"

namespace espalier::torchrt {

struct StageChoice {
  int stage = 0;
  std::optional<int> replica;  // nullopt: the first of those with the largest share
};

// Measures one unit of each kind that the stage has: the shard of its TP rank 0, on the replica's samples of a
// micro-batch. `plan` has been read by standalone_plan(). Call prepare_torch() before. Throws Error, before it measures
// anything, when the plan does not suit the configuration or has no such stage or replica.
StageProfile profile_stage(const Config& config, Plan plan, const StageChoice& choice, Device& device,
                           const UnitRounds& rounds);

}  // namespace espalier::torchrt
