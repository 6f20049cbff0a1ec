#include "planner/core/schedule/gpu_type.hpp"

#include <string_view>

namespace espalier {

bool keeps_gpu_type(const ElasticJob& job) {
  // The program for GPUs says its name, "espalier-train-cuda 0.1.0". No other program promises bits.
  constexpr std::string_view kOnGpus = "espalier-train-cuda";
  return job.accuracy == Accuracy::bitwise && job.model.setting && job.model.setting->program.starts_with(kOnGpus);
}

std::string gpu_type_of(const ElasticJob& job, const ClusterView& cluster) {
  const NodeView* const node = job.anchor.empty() ? nullptr : cluster.find(job.anchor.front().node);
  return node == nullptr ? "" : node->gpu_type;
}

}  // namespace espalier
