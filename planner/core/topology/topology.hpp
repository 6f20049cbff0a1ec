// Effective bandwidth between any two GPUs of the cluster, in a form that stays small: a matrix per kind of node, one
// tree of switches, a leaf per node. Never a GPU x GPU or node x node table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/core/model/hardware.hpp"

namespace espalier {

// The inside of one kind of node: effective bandwidth between its GPUs (hwloc: NVLink also through switches, PCIe,
// NUMA). Row-major, `gpus` x `gpus`, bytes/ms; the diagonal is not used.
struct NodeInside {
  int gpus = 0;
  std::vector<float> bandwidth;
  float between(int a, int b) const { return bandwidth[static_cast<std::size_t>(a * gpus + b)]; }
  bool operator==(const NodeInside&) const = default;
};

// Built once by add_node and set_inside, then read; reading needs no lock.
class Topology {
 public:
  Topology();

  // A node: its kind (index into Hardware::kinds), the GPU type per GRES index (index into Hardware::types), and the
  // switches above it from the root down (as NodeView::switches; may be empty: all such nodes share one leaf).
  // Returns its id: 0, 1, ... in the order of the calls. Throws Error when the name is taken.
  int add_node(const std::string& name, int kind, const std::vector<std::int16_t>& gpu_types,
               const std::vector<std::string>& switches);
  // Optional: without it all GPUs of a kind see each other with the kind's tp_bandwidth, as do GPUs beyond its size.
  // Throws Error when the matrix is not square.
  void set_inside(int kind, NodeInside inside);
  const NodeInside* inside(int kind) const;  // nullptr: not set

  int nodes() const { return static_cast<int>(nodes_.size()); }
  int find(const std::string& name) const;  // -1: unknown
  const std::string& name(int node) const { return at(node).name; }
  int kind(int node) const { return at(node).kind; }
  // Valid until the next add_node.
  const std::vector<std::int16_t>& gpu_types(int node) const {
    return type_lists_[static_cast<std::size_t>(at(node).types)];
  }

  // 0: the same node; 1: under one leaf switch; 2: one level above; ... Nodes without a common switch are one level
  // further apart than the deeper of their paths.
  int distance(int a, int b) const;
  // Order of leaves in which those under one switch stand together, and of nodes inside a leaf. (rack, slot) sorts
  // nodes for the paper's secondary key (Suika §3.2.1, footnote 5): depends on names ("n9" before "n10"), never on the
  // order of add_node. Not below zero.
  std::int32_t rack(int node) const { return switches_[static_cast<std::size_t>(at(node).leaf)].rank; }
  std::int32_t slot(int node) const { return at(node).slot; }

  // The tree, for walks over many nodes. Switch 0 stands above all roots, at depth 0.
  int switches() const { return static_cast<int>(switches_.size()); }
  int leaf(int node) const { return at(node).leaf; }
  int parent(int switch_id) const { return switches_[static_cast<std::size_t>(switch_id)].parent; }  // of 0: -1
  int depth(int switch_id) const { return switches_[static_cast<std::size_t>(switch_id)].depth; }

  // bytes/ms between two GPUs. Between nodes: one rail of the slower kind, times Hardware::crossing per level above the
  // leaf.
  double effective_bandwidth(const Hardware& hardware, int node_a, int gpu_a, int node_b, int gpu_b) const;

 private:
  struct Node {
    std::string name;
    std::int32_t kind = 0;
    std::int32_t types = 0;  // index into type_lists_
    std::int32_t leaf = 0;
    std::int32_t slot = 0;
  };
  // A switch is told from others by its name and its parent.
  struct Switch {
    std::string name;
    std::int32_t parent = -1;
    std::int32_t depth = 0;
    std::int32_t rank = 0;               // in a walk that visits children by name
    std::vector<std::int32_t> children;  // by name
    std::vector<std::int32_t> nodes;     // those it is the leaf of, by name
  };

  const Node& at(int node) const { return nodes_[static_cast<std::size_t>(node)]; }
  std::int32_t find_or_add_switch(std::int32_t parent, const std::string& name);
  void rank_switches();

  std::vector<Node> nodes_;
  std::vector<std::int32_t> by_name_;
  std::vector<Switch> switches_;
  std::vector<std::vector<std::int16_t>> type_lists_;  // distinct ones
  std::vector<NodeInside> insides_;                    // by kind; gpus == 0: not set
};

// bytes/ms of one rail between nodes of two kinds at this distance (>= 1).
double rail_bandwidth(const Hardware& hardware, double nic_a, double nic_b, int distance);

}  // namespace espalier
