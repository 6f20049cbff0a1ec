#include "torchrt/handoff/gpu_reach.hpp"

namespace espalier::torchrt {

Plan as_reached(const Plan& plan, DeviceKind device, const wire::GpuJobs& jobs) {
  if (device == DeviceKind::cpu || jobs.empty()) return plan;
  Plan reached = plan;
  for (Stage& stage : reached.stages)
    for (Replica& replica : stage.replicas)
      for (GpuId& gpu : replica.gpus) {
        const std::string index = std::to_string(gpu.index);
        const auto found = jobs.find(gpu.node + "/" + index);
        // No node's name has a space.
        gpu.node += found != jobs.end() ? " job " + std::to_string(found->second) : " GPU " + index;
      }
  return reached;
}

}  // namespace espalier::torchrt
