#include "planner/core/schedule/intensity.hpp"

#include <algorithm>
#include <vector>

namespace espalier {

double intensity(const PlanningInput& input) {
  std::vector<JobId> expansive = input.extensions;
  for (const ElasticJob& job : input.jobs)
    for (const Holding& held : job.extensions) expansive.push_back(held.job);
  std::sort(expansive.begin(), expansive.end());
  long all = 0, basic = 0;
  JobId known = 0;  // owner of the previous GPU; neighbours mostly have the same owner
  bool counts = false;
  for (const NodeView& node : input.cluster.nodes) {
    if (!node.usable) continue;
    all += static_cast<long>(node.gpu_owner.size());
    for (const JobId owner : node.gpu_owner) {
      if (owner != known) {
        known = owner;
        counts = owner != 0 && !std::binary_search(expansive.begin(), expansive.end(), owner);
      }
      if (counts) ++basic;
    }
  }
  return all > 0 ? static_cast<double>(basic) / static_cast<double>(all) : 0;
}

}  // namespace espalier
