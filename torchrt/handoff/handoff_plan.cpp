#include "torchrt/handoff/handoff_plan.hpp"

namespace espalier::torchrt {

namespace {

// The most bytes of a message. Large enough for full speed: a message between GPUs has a cost of its own, a kernel on
// each side, and at 50 GB/s its bytes take 0.6 ms. Small enough that stages take little memory (eight for each rank, at
// most) and forwarding begins early.
constexpr std::size_t kMessageBytes = std::size_t{4} << 20, kGpuMessageBytes = std::size_t{32} << 20;

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
  request.message_bytes = request.gpu_memory ? kGpuMessageBytes : kMessageBytes;
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
