#include "planner/core/grid/gpu_pools.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace espalier {

std::vector<GpuPool> gpu_pools(const ClusterView& cluster, const Site& site) {
  std::vector<GpuPool> pools;
  for (int n = 0; n < static_cast<int>(cluster.nodes.size()); ++n) {
    const NodeView& view = cluster.nodes[static_cast<std::size_t>(n)];
    const int node = site.topology.find(view.name);
    if (!view.usable || node < 0 || view.gpu_owner.empty()) continue;
    const int type = site.topology.gpu_types(node).front();
    auto pool = std::find_if(pools.begin(), pools.end(), [&](const GpuPool& p) { return p.type == type; });
    if (pool == pools.end()) pool = pools.insert(pools.end(), {type, 0, 0, {}});
    const int gpus = static_cast<int>(view.gpu_owner.size());
    pool->node_gpus = std::max(pool->node_gpus, gpus);
    pool->gpus += gpus;
    pool->nodes.push_back(n);
  }
  std::stable_sort(pools.begin(), pools.end(), [&](const GpuPool& a, const GpuPool& b) {
    const auto speed = [&](const GpuPool& p) { return site.hardware.types[static_cast<std::size_t>(p.type)].tflops; };
    return speed(a) > speed(b);
  });
  return pools;
}

std::vector<Piece> compact_pieces(const GpuPool& pool, const ClusterView& cluster, const Site& site, int gpus) {
  if (gpus <= 0 || gpus > pool.gpus) return {};
  // Racks with most nodes come first, so that the fewest racks are needed.
  std::map<std::int32_t, int> in_rack;
  std::vector<int> nodes;
  const auto gpus_of = [&](int node) { return static_cast<int>(site.topology.gpu_types(node).size()); };
  for (const int n : pool.nodes) {
    const int node = site.topology.find(cluster.nodes[static_cast<std::size_t>(n)].name);
    nodes.push_back(node);
    ++in_rack[site.topology.rack(node)];
  }
  std::stable_sort(nodes.begin(), nodes.end(), [&](int a, int b) {
    const auto key = [&](int node) {
      const auto rack = site.topology.rack(node);
      return std::tuple(-gpus_of(node), -in_rack[rack], rack, site.topology.slot(node));
    };
    return key(a) < key(b);
  });
  std::vector<Piece> pieces;
  for (const int node : nodes) {
    const int taken = std::min(gpus, gpus_of(node));
    if (taken > 0) pieces.push_back({node, static_cast<std::int16_t>(pool.type), static_cast<std::int16_t>(taken)});
    gpus -= taken;
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.node < b.node; });
  return gpus == 0 ? pieces : std::vector<Piece>{};
}

}  // namespace espalier
