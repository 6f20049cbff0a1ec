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

Plan host_memory_as_reached(const Plan& plan, const Plan& after, DeviceKind device, const wire::GpuJobs& jobs) {
  Plan reached = as_reached(plan, device, jobs);
  const std::vector<GpuId> nodes = plan.ranks(), readers = after.ranks();
  const std::vector<GpuId> places = as_reached(after, device, jobs).ranks();
  std::size_t rank = 0;
  for (Stage& stage : reached.stages)
    for (Replica& replica : stage.replicas)
      for (GpuId& gpu : replica.gpus) {
        const std::string left_by = gpu.node, node = nodes[rank++].node;
        bool found = false;
        for (std::size_t reader = 0; reader < readers.size(); ++reader) {
          if (readers[reader].node != node || (found && places[reader].node != left_by)) continue;
          gpu.node = places[reader].node;
          found = true;
        }
      }
  return reached;
}

}  // namespace espalier::torchrt
