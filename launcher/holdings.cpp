#include "launcher/holdings.hpp"

#include <algorithm>

namespace espalier::launcher {

bool uses(const Plan& plan, const Holding& holding) {
  const auto ranks = plan.ranks();
  return std::any_of(ranks.begin(), ranks.end(), [&](const GpuId& gpu) {
    return gpu.node == holding.node &&
           std::find(holding.gpus.begin(), holding.gpus.end(), gpu.index) != holding.gpus.end();
  });
}

std::vector<JobId> leaving(const Plan& plan, const std::vector<Holding>& extensions, const std::set<JobId>& taken) {
  std::set<JobId> list = taken;
  for (const Holding& holding : extensions)
    if (!uses(plan, holding)) list.insert(holding.job);
  return {list.begin(), list.end()};
}

}  // namespace espalier::launcher
