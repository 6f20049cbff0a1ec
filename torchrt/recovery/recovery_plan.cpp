#include "torchrt/recovery/recovery_plan.hpp"

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

// No real GPU has this number. So no rank adopts a copy to train in it: the copy may be needed
// again.
constexpr int kNoGpu = 1 << 20;

// The lost plan, but with every rank on the node of its copy.
Plan where_copies_lie(const Plan& lost, const std::vector<int>& holders) {
  const std::vector<GpuId> gpus = lost.ranks();
  Plan plan = lost;
  std::size_t rank = 0;
  for (Stage& stage : plan.stages)
    for (Replica& replica : stage.replicas)
      for (GpuId& gpu : replica.gpus) {
        ESPALIER_INVARIANT(gpu == gpus[rank]);
        if (holders[rank] >= 0) gpu.node = gpus[static_cast<std::size_t>(holders[rank])].node;
        gpu.index = kNoGpu + static_cast<int>(rank++);
      }
  return plan;
}

}  // namespace

TransferRequest recovery_request(const Config& config, const Plan& lost, const Plan& after, const SourceChoice& choice,
                                 DeviceKind device) {
  const bool copies = choice.origin == Origin::snapshot;
  TransferRequest request =
      handoff_request(config, copies ? where_copies_lie(lost, choice.holder) : lost, after, device, true);
  request.gpu_memory = request.gpu_memory || copies;
  request.two_worlds = false;
  request.torn = choice.torn;
  return request;
}

HandoffPlan plan_recovery(const Config& config, const Plan& lost, const Plan& after, const SourceChoice& choice,
                          DeviceKind device) {
  const TransferRequest request = recovery_request(config, lost, after, choice, device);
  TransferPlan transfer(config.model, request);
  Routes routes = make_routes(transfer, request);
  return {std::move(transfer), std::move(routes)};
}

}  // namespace espalier::torchrt
