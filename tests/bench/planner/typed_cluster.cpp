#include "tests/bench/planner/typed_cluster.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "planner/cli/preset_clusters.hpp"
#include "planner/core/error.hpp"
#include "tests/bench/planner/paper_cluster.hpp"

namespace espalier::bench {
namespace {

constexpr int kPaperRackNodes = 16;

// The nodes of one type.
struct Pool {
  std::string type;
  int node_gpus = 0, leaf_nodes = 0;
  GpuOverride hardware;
  int nodes = 0;
};

std::vector<Pool> pools_of(const std::string& preset) {
  const auto cluster = cli::preset_cluster(preset);
  ESPALIER_INVARIANT(cluster.has_value());
  std::vector<Pool> pools;
  for (const NodeView& node : cluster->view.nodes) {
    if (pools.empty() || pools.back().type != node.gpu_type)
      pools.push_back(
          {node.gpu_type, static_cast<int>(node.gpu_owner.size()), 0, cluster->hardware.gpus.at(node.gpu_type), 0});
    ++pools.back().leaf_nodes;
  }
  return pools;
}

std::vector<Pool> all_pools() {
  std::vector<Pool> pools = pools_of("cluster-arena");
  for (Pool& more : pools_of("cluster-arena-b")) pools.push_back(std::move(more));
  return pools;
}

// Large nodes first, so that small ones make up for what whole nodes leave over.
void share_out(std::vector<Pool>& pools, int gpus) {
  std::vector<Pool*> order;
  for (Pool& pool : pools) order.push_back(&pool);
  std::stable_sort(order.begin(), order.end(),
                   [](const Pool* a, const Pool* b) { return a->node_gpus > b->node_gpus; });
  int left = gpus;
  for (std::size_t i = 0; i < order.size(); ++i) {
    Pool& pool = *order[i];
    const int share = left / static_cast<int>(order.size() - i);
    pool.nodes = std::max(1, share / pool.node_gpus);
    left -= pool.nodes * pool.node_gpus;
    if (left < 0)
      throw Error("--types " + std::to_string(pools.size()) + ": more types than " + std::to_string(gpus) +
                  " GPUs have nodes for; a node of " + pool.type + " has " + std::to_string(pool.node_gpus) +
                  " GPUs; give more --gpus or fewer --types");
  }
  if (left > 0)
    throw Error("--gpus " + std::to_string(gpus) + ": " + std::to_string(left) +
                " of them make no whole node; the smallest node of --types " + std::to_string(pools.size()) + " has " +
                std::to_string(order.back()->node_gpus) + " GPUs");
}

std::string numbered(const char* format, int number) {
  char text[32];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

NodeView idle_node(const std::string& name, const std::string& type, const std::string& leaf, int gpus) {
  NodeView node;
  node.name = name;
  node.gpu_type = type;
  node.switches = {"spine", leaf};
  node.gpu_owner.assign(static_cast<std::size_t>(gpus), 0);
  node.free_cpus = 128;
  node.free_memory_mb = 1 << 20;
  return node;
}

// What the data sheet does not tell of the nodes of paper_cluster().
HardwareOverrides paper_hardware() {
  const Site paper = paper_cluster(1, 1);
  const GpuType& type = paper.hardware.types.front();
  const NodeKind& kind = paper.hardware.kinds.front();
  HardwareOverrides hardware;
  hardware.gpus[type.name] = {type.tflops, type.memory_bytes / 1e9, type.memory_bandwidth / 1e6, {}, 0, 0};
  hardware.tp_gb_s = kind.tp_bandwidth / 1e6;
  hardware.dp_gb_s = kind.dp_bandwidth / 1e6;
  hardware.nic_gb_s = kind.nic_bandwidth / 1e6;
  hardware.nics = kind.nics;
  hardware.crossing = paper.hardware.crossing;
  return hardware;
}

}  // namespace

TypedCluster typed_cluster(int gpus, int types) {
  if (types < 1) throw Error("--types " + std::to_string(types) + ": a cluster has at least one type of GPU");
  std::vector<Pool> pools = all_pools();
  if (types > static_cast<int>(pools.size())) {
    std::string names;
    for (const Pool& pool : pools) names += (names.empty() ? "" : ", ") + pool.type;
    throw Error("--types " + std::to_string(types) + ": there are nodes of " + std::to_string(pools.size()) +
                " types: " + names);
  }
  TypedCluster made;
  if (types == 1) {
    pools = {{"h100", 8, kPaperRackNodes, {}, 0}};
    made.hardware = paper_hardware();
  } else {
    pools.resize(static_cast<std::size_t>(types));
    made.hardware.crossing = 0.5;
    for (const Pool& pool : pools) made.hardware.gpus[pool.type] = pool.hardware;
  }
  share_out(pools, gpus);
  for (const Pool& pool : pools)
    for (int n = 0; n < pool.nodes; ++n) {
      const int leaf = n / pool.leaf_nodes;
      if (types == 1)
        made.view.nodes.push_back(
            idle_node(numbered("n%04d", n), pool.type, numbered("rack%03d", leaf), pool.node_gpus));
      else
        made.view.nodes.push_back(idle_node(pool.type + numbered("-%04d", n), pool.type,
                                            pool.type + numbered("-leaf%02d", leaf), pool.node_gpus));
    }
  std::sort(made.view.nodes.begin(), made.view.nodes.end(),
            [](const NodeView& a, const NodeView& b) { return a.name < b.name; });
  return made;
}

}  // namespace espalier::bench
