#include "planner/core/schedule/acquire.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "planner/core/schedule/growth_record.hpp"

namespace espalier {

int acquire_for(const ElasticJob& job, const Plan& plan, std::vector<Supply>& supplies,
                std::vector<ExtensionRequest>& acquire) {
  std::set<GpuId> own;
  for (const auto* holdings : {&job.anchor, &job.extensions})
    for (const Holding& held : *holdings)
      for (const int gpu : held.gpus) own.insert({held.node, gpu});
  std::map<std::string, std::vector<int>> wanted;
  for (const GpuId& gpu : plan.ranks())
    if (!own.contains(gpu)) wanted[gpu.node].push_back(gpu.index);
  if (wanted.empty()) return 0;
  int count = 0;
  for (Supply& supply : supplies) {
    const auto want = wanted.find(supply.node->name);
    if (want == wanted.end()) continue;
    const std::vector<int>& taken = want->second;
    const ExtensionRequest request = request_for(supply, static_cast<int>(taken.size()));
    std::erase_if(supply.gpus, [&](int gpu) { return std::find(taken.begin(), taken.end(), gpu) != taken.end(); });
    supply.free_cpus -= request.cpus;
    supply.free_memory_mb -= request.memory_mb;
    count += request.gpus;
    acquire.push_back(request);
  }
  return count;
}

}  // namespace espalier
