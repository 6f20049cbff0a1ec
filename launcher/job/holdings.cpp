#include "launcher/job/holdings.hpp"

#include <algorithm>
#include <map>

#include "planner/core/error.hpp"

namespace espalier::launcher {

bool uses(const Plan& plan, const Holding& holding) {
  for (const Stage& stage : plan.stages)
    for (const Replica& replica : stage.replicas)
      for (const GpuId& gpu : replica.gpus)
        if (gpu.node == holding.node &&
            std::find(holding.gpus.begin(), holding.gpus.end(), gpu.index) != holding.gpus.end())
          return true;
  return false;
}

GpusOfPlan::GpusOfPlan(const Plan& plan) {
  for (const Stage& stage : plan.stages)
    for (const Replica& replica : stage.replicas) gpus_.insert(replica.gpus.begin(), replica.gpus.end());
}

bool GpusOfPlan::any_of(const Holding& holding) const {
  return std::any_of(holding.gpus.begin(), holding.gpus.end(), [&](int index) {
    return gpus_.contains({holding.node, index});
  });
}

std::vector<JobId> leaving(const Plan& plan, const std::vector<Holding>& extensions, const std::set<JobId>& taken) {
  std::set<JobId> list = taken;
  const GpusOfPlan used(plan);
  for (const Holding& holding : extensions)
    if (!used.any_of(holding)) list.insert(holding.job);
  return {list.begin(), list.end()};
}

void place_on_granted(Plan& plan, const std::vector<Holding>& held, const std::vector<Holding>& granted) {
  std::set<GpuId> had;
  for (const Holding& holding : held)
    for (const int index : holding.gpus) had.insert({holding.node, index});
  std::map<std::string, std::vector<int>> free;
  for (const Holding& holding : granted) {
    auto& list = free[holding.node];
    list.insert(list.end(), holding.gpus.begin(), holding.gpus.end());
  }
  for (Stage& stage : plan.stages)
    for (Replica& replica : stage.replicas)
      for (GpuId& gpu : replica.gpus) {
        if (had.contains(gpu)) continue;
        auto& left = free[gpu.node];
        if (left.empty()) throw Error("the plan uses a GPU of " + gpu.node + " that was not granted");
        gpu.index = left.front();
        left.erase(left.begin());
      }
}

std::vector<GpuId> with_lead(std::vector<GpuId> gpus, const std::vector<Holding>& own) {
  if (own.empty()) return gpus;
  const std::string& lead = own.front().node;
  if (std::any_of(gpus.begin(), gpus.end(), [&](const GpuId& gpu) { return gpu.node == lead; })) return gpus;
  for (const Holding& holding : own)
    if (holding.node == lead)
      for (const int index : holding.gpus) gpus.push_back({lead, index});
  return gpus;
}

}  // namespace espalier::launcher
