// Plans how the memory left by a lost generation becomes the state of the new one. Pure.
#pragma once

#include "torchrt/config.hpp"
#include "torchrt/handoff/handoff_plan.hpp"
#include "torchrt/recovery/choose_source.hpp"

namespace espalier::torchrt {

// The request to the planner of transfers.
TransferRequest recovery_request(const Config& config, const Plan& lost, const Plan& after, const SourceChoice& choice,
                                 DeviceKind device);

// `choice` must be of origin generation or snapshot, and its memory must lie on nodes of `after`.
// All messages go through the new world. Throws Error when a plan does not suit the model.
HandoffPlan plan_recovery(const Config& config, const Plan& lost, const Plan& after, const SourceChoice& choice,
                          DeviceKind device);

}  // namespace espalier::torchrt
