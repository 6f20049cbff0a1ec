#include "planner/core/schedule/hindered.hpp"

#include <algorithm>

#include "planner/core/waiting.hpp"

namespace espalier {
namespace {

constexpr int kMostLooks = 64;

}  // namespace

JobId hindered_by(JobId base, const std::set<JobId>& before, const ClusterView& cluster) {
  int looks = 0;
  for (const WaitingJob& job : cluster.waiting) {
    if (before.contains(job.id) || job.gpus <= 0) continue;
    if (++looks > kMostLooks) return 0;
    std::size_t largest = 0;
    for (const NodeView& node : cluster.nodes)
      if (allowed(job, node)) largest = std::max(largest, node.gpu_owner.size());
    const auto [each, nodes] = per_node_need(job, static_cast<int>(largest));
    int now = 0, then = 0;  // nodes with room, without and with the base's GPUs
    for (const NodeView& node : cluster.nodes) {
      if (!allowed(job, node)) continue;
      const auto owned = std::count(node.gpu_owner.begin(), node.gpu_owner.end(), base);
      const auto idle = std::count(node.gpu_owner.begin(), node.gpu_owner.end(), JobId{0});
      if (job.whole_nodes && node.cpu_jobs) continue;
      const int needed = job.whole_nodes ? std::max(each, static_cast<int>(node.gpu_owner.size())) : each;
      if (idle >= needed) ++now;
      if (idle + owned >= needed) ++then;
    }
    if (now < nodes && then >= nodes) return job.id;
  }
  return 0;
}

}  // namespace espalier
