#include "torchrt/handoff/handoff_plan.hpp"

namespace espalier::torchrt {

namespace {

// Large enough for full speed. Small enough that stages take little memory and forwarding begins
// early.
constexpr std::size_t kMessageBytes = std::size_t{4} << 20;

}  // namespace

TransferRequest handoff_request(const Config& config, const Plan& before, const Plan& after, DeviceKind device,
                                bool adopts) {
  TransferRequest request;
  request.before = before;
  request.after = after;
  request.zero1_before = request.zero1_after = config.training.zero1;
  request.dtype = config.training.dtype;
  request.adopts = adopts && config.handoff.method != HandoffMethod::device;
  request.gpu_memory = device == DeviceKind::cuda;
  request.message_bytes = kMessageBytes;
  request.two_worlds = true;
  return request;
}

HandoffPlan plan_handoff(const Config& config, const Plan& before, const Plan& after, DeviceKind device, bool adopts) {
  const TransferRequest request = handoff_request(config, before, after, device, adopts);
  TransferPlan transfer(config.model, request);
  Routes routes = make_routes(transfer, request);
  return {std::move(transfer), std::move(routes)};
}

}  // namespace espalier::torchrt
