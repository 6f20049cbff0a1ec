#include "planner/core/schedule/idle_gpus.hpp"

#include <algorithm>

namespace espalier {
namespace {

// The number of GPUs of `supply` that can have a CPU each.
std::size_t grantable(const Supply& supply) {
  if (supply.lease_minutes < 1 || supply.free_memory_mb < 2) return 0;
  return std::min(supply.gpus.size(), static_cast<std::size_t>(std::max(0, supply.free_cpus)));
}

}  // namespace

IdleGpus::IdleGpus(const std::vector<Supply>& supplies, const Site& site, const std::map<JobId, NodeNames>& closed)
    : site_(site), closed_(closed) {
  for (const Supply& supply : supplies) {
    const std::size_t count = grantable(supply);
    const int node = count > 0 ? site.topology.find(supply.node->name) : -1;
    if (node < 0) continue;
    NodeGpus gpus{node, {}};
    const auto known = site.topology.gpu_types(node).size();
    for (std::size_t i = 0; i < count; ++i)
      if (static_cast<std::size_t>(supply.gpus[i]) < known)
        gpus.gpus.push_back(static_cast<std::int16_t>(supply.gpus[i]));
    if (!gpus.gpus.empty()) idle_.push_back(std::move(gpus));
  }
  std::sort(idle_.begin(), idle_.end(), [](const NodeGpus& a, const NodeGpus& b) { return a.node < b.node; });
}

int IdleGpus::count() const {
  std::size_t sum = 0;
  for (const NodeGpus& node : idle_) sum += node.gpus.size();
  return static_cast<int>(sum);
}

bool IdleGpus::holds(const NodeGpus& node, const GpuId& gpu) const {
  return std::find(node.gpus.begin(), node.gpus.end(), gpu.index) != node.gpus.end() &&
         site_.topology.find(gpu.node) == node.node;
}

std::vector<NodeGpus> IdleGpus::for_job(const ElasticJob& job, const PlanBounds& bounds) const {
  std::vector<NodeGpus> mine;
  mine.reserve(idle_.size());
  const auto found = closed_.find(job.id);
  const NodeNames closed = found == closed_.end() ? nullptr : found->second;
  for (const NodeGpus& node : idle_) {
    if (closed && std::binary_search(closed->begin(), closed->end(), site_.topology.name(node.node))) continue;
    if (std::any_of(job.unfit.begin(), job.unfit.end(), [&](const GpuId& gpu) { return holds(node, gpu); })) continue;
    if (bounds.types.empty()) {
      mine.push_back(node);
      continue;
    }
    NodeGpus allowed{node.node, {}};
    for (const std::int16_t gpu : node.gpus)
      if (bounds.allows_type(site_.topology.gpu_types(node.node)[static_cast<std::size_t>(gpu)]))
        allowed.gpus.push_back(gpu);
    if (!allowed.gpus.empty()) mine.push_back(std::move(allowed));
  }
  return mine;
}

bool IdleGpus::has(const std::vector<AffinityUnit>& units, std::size_t count) const {
  for (std::size_t i = 0; i < count; ++i) {
    const AffinityUnit& unit = units[i];
    const auto node = std::lower_bound(idle_.begin(), idle_.end(), unit.node,
                                       [](const NodeGpus& n, int wanted) { return n.node < wanted; });
    if (node == idle_.end() || node->node != unit.node) return false;
    std::size_t wanted = 0;
    for (std::size_t k = 0; k < count; ++k)
      if (units[k].node == unit.node && units[k].type == unit.type) wanted += units[k].gpus.size();
    const auto& types = site_.topology.gpu_types(unit.node);
    const auto idle = std::count_if(node->gpus.begin(), node->gpus.end(), [&](std::int16_t gpu) {
      return types[static_cast<std::size_t>(gpu)] == unit.type;
    });
    if (wanted > static_cast<std::size_t>(idle)) return false;
  }
  return true;
}

void IdleGpus::take(const std::vector<AffinityUnit>& units, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    for (NodeGpus& node : idle_)
      if (node.node == units[i].node)
        std::erase_if(node.gpus, [&](std::int16_t gpu) {
          return std::find(units[i].gpus.begin(), units[i].gpus.end(), gpu) != units[i].gpus.end();
        });
  std::erase_if(idle_, [](const NodeGpus& node) { return node.gpus.empty(); });
}

}  // namespace espalier
