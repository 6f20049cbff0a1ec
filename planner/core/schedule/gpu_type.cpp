#include "planner/core/schedule/gpu_type.hpp"

#include <set>
#include <string_view>

namespace espalier {

bool keeps_gpu_type(const ElasticJob& job) {
  // The program for GPUs says its name, "espalier-train-cuda 0.1.0". No other program promises bits.
  constexpr std::string_view kOnGpus = "espalier-train-cuda";
  return job.accuracy == Accuracy::bitwise && job.model.setting && job.model.setting->program.starts_with(kOnGpus);
}

std::string gpu_type_of(const ElasticJob& job, const ClusterView& cluster) {
  std::set<std::string> types;
  for (const Holding& held : job.anchor)
    if (const NodeView* const node = cluster.find(held.node); node != nullptr) types.insert(node->gpu_type);
  std::string text;  // an untyped node counts: "+h100"
  for (const std::string& type : types) text += (&type == &*types.begin() ? "" : "+") + type;
  return text;
}

}  // namespace espalier
