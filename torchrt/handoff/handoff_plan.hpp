// What both generations of a running job plan alike.
#pragma once

#include "torchrt/config.hpp"
#include "torchrt/device/device.hpp"
#include "torchrt/handoff/transfer/routes.hpp"

namespace espalier::torchrt {

struct HandoffPlan {
  TransferPlan transfer;
  Routes routes;
};

// As every hand-off of a job is asked for, in two worlds. `adopts`: Device::adopts(); where it does not, all is copied.
TransferRequest handoff_request(const Config& config, const Plan& before, const Plan& after, DeviceKind device,
                                bool adopts);

// Throws Error when a plan does not suit the model, or something would have to pass through a node that the generations
// do not share.
HandoffPlan plan_handoff(const Config& config, const Plan& before, const Plan& after, DeviceKind device, bool adopts);

}  // namespace espalier::torchrt
