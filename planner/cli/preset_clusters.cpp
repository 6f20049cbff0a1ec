#include "planner/cli/preset_clusters.hpp"

#include <array>
#include <vector>

namespace espalier::cli {
namespace {

// A message is assumed to reach 85% of a rail's rate.
constexpr double kShareOfRate = 0.85;
constexpr double connect_x(int gigabit) { return kShareOfRate * gigabit / 8; }

// Nodes of one type of GPU. The data sheets tell their speed (gpu_specs.cpp).
struct Pool {
  const char* type;
  int nodes, gpus;   // GPUs of each node
  int rack_nodes;    // nodes under one leaf switch; 0: all
  double nic_gb_s;   // of one rail
  int nics;          // rails of a node
  double memory_gb;  // 0: the data sheet's
};

struct Preset {
  const char* name;
  std::vector<Pool> pools;
};

const std::vector<Preset>& presets() {
  // Arena Tab. 1: ConnectX-5 has 100 Gb/s, ConnectX-6 200 Gb/s. The paper tells neither rails nor switches: one rail a
  // node, and all nodes of a type under one switch ("production clusters typically house homogeneous GPUs in the same
  // region", §3.5).
  constexpr double kCx5 = connect_x(100), kCx6 = connect_x(200);
  static const std::vector<Preset> all{
      {"cluster-a", {{"h100", 8, 8, 8, connect_x(400), 8, 0}}},
      {"cluster-b", {{"h100", 128, 8, 16, connect_x(400), 8, 0}}},
      {"cluster-arena",
       {{"a100", 80, 4, 0, kCx5, 1, 40},
        {"a40", 160, 2, 0, kCx5, 1, 48},
        {"a10", 160, 2, 0, kCx6, 1, 24},
        {"v100", 20, 16, 0, kCx5, 1, 32}}},
      {"cluster-arena-a", {{"a40", 16, 2, 0, kCx5, 1, 48}, {"a10", 16, 2, 0, kCx6, 1, 24}}},
      {"cluster-arena-b", {{"h100", 16, 8, 0, kCx6, 1, 80}, {"l20", 16, 16, 0, kCx6, 1, 48}}},
  };
  return all;
}

PlanCluster build(const Preset& preset) {
  PlanCluster cluster;
  cluster.name = preset.name;
  cluster.hardware.crossing = 0.5;
  const bool mixed = preset.pools.size() > 1;
  for (const Pool& pool : preset.pools) {
    if (mixed) {
      GpuOverride& own = cluster.hardware.gpus[pool.type];
      own.nic_gb_s = pool.nic_gb_s;
      own.nics = pool.nics;
      own.memory_gb = pool.memory_gb;
    } else {
      cluster.hardware.nic_gb_s = pool.nic_gb_s;
      cluster.hardware.nics = pool.nics;
    }
    for (int n = 0; n < pool.nodes; ++n) {
      NodeView node;
      node.name = (mixed ? std::string(pool.type) + "-" : "n") + std::to_string(n + 1);
      node.gpu_type = pool.type;
      const std::string leaf =
          pool.rack_nodes > 0 ? "rack" + std::to_string(n / pool.rack_nodes + 1) : std::string(pool.type);
      node.switches = {"spine", leaf};
      node.gpu_owner.assign(static_cast<std::size_t>(pool.gpus), 0);
      cluster.view.nodes.push_back(std::move(node));
    }
  }
  return cluster;
}

}  // namespace

std::optional<PlanCluster> preset_cluster(const std::string& name) {
  for (const Preset& preset : presets())
    if (name == preset.name) return build(preset);
  return std::nullopt;
}

std::string preset_names() {
  std::string names;
  for (const Preset& preset : presets()) names += (names.empty() ? "" : ", ") + std::string(preset.name);
  return names;
}

}  // namespace espalier::cli
