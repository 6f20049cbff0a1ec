// How what is left of a lost generation becomes the state of the new one. Pure.
#pragma once

#include "torchrt/config.hpp"
#include "torchrt/handoff/handoff_plan.hpp"
#include "torchrt/recovery/choose_source.hpp"

namespace espalier::torchrt {

// What is asked of the transfer's planner.
TransferRequest recovery_request(const Config& config, const Plan& lost, const Plan& after, const SourceChoice& choice,
                                 DeviceKind device);

// `choice` is of origin generation or snapshot; only what lies on nodes of `after` may be in it. All messages go
// through the new world. Throws Error when a plan does not suit the model.
HandoffPlan plan_recovery(const Config& config, const Plan& lost, const Plan& after, const SourceChoice& choice,
                          DeviceKind device);

}  // namespace espalier::torchrt
