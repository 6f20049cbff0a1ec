// The plan of a running job's hand-off. Both generations compute the same one.
#pragma once

#include "torchrt/config.hpp"
#include "torchrt/device/device.hpp"
#include "torchrt/handoff/transfer/routes.hpp"

namespace espalier::torchrt {

struct HandoffPlan {
  TransferPlan transfer;
  Routes routes;
};

// The request for any hand-off of a job, in two worlds. `adopts`: Device::adopts(); false: all
// memory is copied.
TransferRequest handoff_request(const Config& config, const Plan& before, const Plan& after, DeviceKind device,
                                bool adopts);

// Throws Error when a plan does not suit the model. Throws Error too when state needs a relay
// (routes.hpp) but the generations share no node.
HandoffPlan plan_handoff(const Config& config, const Plan& before, const Plan& after, DeviceKind device, bool adopts);

}  // namespace espalier::torchrt
