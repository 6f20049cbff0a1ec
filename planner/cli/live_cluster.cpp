#include "planner/cli/live_cluster.hpp"

#include <slurm/slurm_errno.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "planner/cli/start_slurm.hpp"
#include "planner/core/error.hpp"
#include "planner/core/gres.hpp"
#include "planner/core/topology/topology_text.hpp"
#include "planner/slurm/site.h"

namespace espalier::cli {
namespace {

[[noreturn]] void fail(const char* what) {
  throw Error(std::string("slurm: ") + what + " cannot be read: " + slurm_strerror(errno) +
              "; describe the cluster in a file instead");
}

bool is_idle(std::uint32_t state) {
  constexpr std::uint32_t kAway = NODE_STATE_DRAIN | NODE_STATE_FAIL | NODE_STATE_NO_RESPOND | NODE_STATE_POWERED_DOWN |
                                  NODE_STATE_POWERING_DOWN | NODE_STATE_MAINT | NODE_STATE_REBOOT_REQUESTED |
                                  NODE_STATE_REBOOT_ISSUED | NODE_STATE_COMPLETING | NODE_STATE_INVALID_REG;
  return (state & kAway) == 0 && (state & NODE_STATE_BASE) == NODE_STATE_IDLE;
}

}  // namespace

PlanCluster cluster_of(const node_info_msg_t& nodes, const std::string& topology) {
  const auto switches = parse_topology(topology);
  PlanCluster cluster;
  cluster.name = "slurm";
  for (std::uint32_t i = 0; i < nodes.record_count; ++i) {
    const node_info_t& from = nodes.node_array[i];
    if (from.name == nullptr) continue;
    NodeView node;
    node.name = from.name;
    try {
      const GpuGres gpus = parse_gpu_gres(from.gres == nullptr ? "" : from.gres);
      if (gpus.count <= 0) continue;
      node.gpu_type = gpus.type;
      node.gpu_owner.assign(static_cast<std::size_t>(gpus.count), 0);
    } catch (const Error& error) {
      throw Error("slurm: node " + node.name + ": " + error.what());
    }
    if (const auto above = switches.find(node.name); above != switches.end()) node.switches = above->second;
    if (is_idle(from.node_state)) cluster.idle.insert(node.name);
    cluster.view.nodes.push_back(std::move(node));
  }
  if (cluster.view.nodes.empty()) throw Error("slurm: no node has GPUs; describe the cluster in a file instead");
  return cluster;
}

PlanCluster read_live_cluster(const std::string& otherwise) {
  start_slurm(otherwise);
  node_info_msg_t* nodes = nullptr;
  if (slurm_load_node(0, &nodes, SHOW_ALL) != SLURM_SUCCESS) fail("nodes");
  const std::unique_ptr<node_info_msg_t, decltype(&slurm_free_node_info_msg)> own_nodes(nodes,
                                                                                        slurm_free_node_info_msg);
  const std::unique_ptr<char, decltype(&std::free)> topology(espalier_slurm_topology(), std::free);
  if (!topology) fail("topology");
  return cluster_of(*nodes, topology.get());
}

}  // namespace espalier::cli
