#include "planner/sim/slurm_preemption.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "planner/sim/free_gpus.hpp"

namespace espalier::sim {
namespace {

struct Pass {
  std::vector<JobId> removed;
  std::set<std::string> nodes;  // nodes on which the job then fits
};

std::optional<Pass> remove_until_it_fits(const ClusterView& cluster, int gpus, const std::string& gpu_type,
                                         const std::vector<JobId>& order, std::set<JobId> without) {
  Pass pass;
  for (const JobId id : order) {
    without.insert(id);
    pass.removed.push_back(id);
    const auto placed = FreeGpus(cluster, [&](JobId owner) { return without.contains(owner); }).take(gpus, gpu_type);
    if (!placed) continue;
    for (const GpuId& gpu : *placed) pass.nodes.insert(gpu.node);
    return pass;
  }
  return std::nullopt;
}

std::map<JobId, std::set<std::string>> nodes_of_owners(const ClusterView& cluster) {
  std::map<JobId, std::set<std::string>> nodes;
  for (const NodeView& node : cluster.nodes)
    for (const JobId owner : node.gpu_owner)
      if (owner != 0) nodes[owner].insert(node.name);
  return nodes;
}

}  // namespace

std::vector<JobId> preempted_for(const ClusterView& cluster, int gpus, const std::vector<JobId>& candidates,
                                 const std::set<JobId>& leaving, const std::string& gpu_type) {
  const auto fits = [&](const std::set<JobId>& without) {
    return FreeGpus(cluster, [&](JobId owner) { return without.contains(owner); }).take(gpus, gpu_type).has_value();
  };
  if (fits(leaving)) return {};
  std::set<JobId> all = leaving;
  all.insert(candidates.begin(), candidates.end());
  if (!fits(all)) return {};
  auto nodes = nodes_of_owners(cluster);
  const auto on = [&](const Pass& pass, JobId id) {
    return std::any_of(nodes[id].begin(), nodes[id].end(),
                       [&](const std::string& node) { return pass.nodes.contains(node); });
  };
  auto pass = remove_until_it_fits(cluster, gpus, gpu_type, candidates, leaving);
  if (!pass) return {};
  if (pass->removed.size() > 1) {
    std::vector<JobId> order = pass->removed;
    std::rotate(order.rbegin(), order.rbegin() + 1, order.rend());
    std::stable_partition(order.begin() + 1, order.end(), [&](JobId id) { return on(*pass, id); });
    if (auto again = remove_until_it_fits(cluster, gpus, gpu_type, order, leaving)) pass = std::move(again);
  }
  std::erase_if(pass->removed, [&](JobId id) { return !on(*pass, id); });
  return pass->removed;
}

}  // namespace espalier::sim
