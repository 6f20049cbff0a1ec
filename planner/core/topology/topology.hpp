// Effective bandwidth between any two GPUs of the cluster, in a form that stays small: a matrix per kind of node, a
// path of switches per node. Never a GPU x GPU or node x node table.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "planner/core/model/hardware.hpp"

namespace espalier {

// The inside of one kind of node: effective bandwidth between its GPUs (hwloc: NVLink also through switches, PCIe,
// NUMA). Row-major, `gpus` x `gpus`, bytes/ms; the diagonal is not used.
struct NodeInside {
  int gpus = 0;
  std::vector<float> bandwidth;
  float between(int a, int b) const { return bandwidth[static_cast<std::size_t>(a * gpus + b)]; }
};

class Topology {
 public:
  // A node: its kind (index into Hardware::kinds), the GPU type per GRES index (index into Hardware::types), and the
  // switches above it from the root down (as NodeView::switches; may be empty: all such nodes share one leaf).
  int add_node(const std::string& name, int kind, std::vector<std::int16_t> gpu_types,
               const std::vector<std::string>& switches);
  // Optional: without it all GPUs of a kind see each other with the kind's tp_bandwidth.
  void set_inside(int kind, NodeInside inside);

  int nodes() const { return static_cast<int>(nodes_.size()); }
  int find(const std::string& name) const;  // -1: unknown
  const std::string& name(int node) const { return nodes_[static_cast<std::size_t>(node)].name; }
  int kind(int node) const { return nodes_[static_cast<std::size_t>(node)].kind; }
  const std::vector<std::int16_t>& gpu_types(int node) const {
    return nodes_[static_cast<std::size_t>(node)].gpu_types;
  }

  // 0: the same node; 1: under one leaf switch; 2: one level above; ... Nodes without a common switch are one level
  // further apart than the deeper of their paths.
  int distance(int a, int b) const;
  // A number that orders nodes so that those under one switch stand together (the rack of the paper's secondary key).
  std::int64_t rack(int node) const { return nodes_[static_cast<std::size_t>(node)].rack; }

  // bytes/ms between two GPUs. Between nodes: one rail of the slower kind, times Hardware::crossing per level above the
  // leaf.
  double effective_bandwidth(const Hardware& hardware, int node_a, int gpu_a, int node_b, int gpu_b) const;

 private:
  struct Node {
    std::string name;
    int kind = 0;
    std::vector<std::int16_t> gpu_types;
    std::vector<std::int32_t> path;  // switch ids from the root down
    std::int64_t rack = 0;
  };
  std::vector<Node> nodes_;
  std::unordered_map<std::string, int> index_;
  std::unordered_map<std::string, std::int32_t> switch_ids_;
  std::vector<NodeInside> insides_;  // by kind
};

}  // namespace espalier
