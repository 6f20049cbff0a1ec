// Effective bandwidth between any two GPUs of the cluster. The data stay small: a matrix per kind
// of node, one tree of switches, and a leaf per node. There is no GPU x GPU or node x node table.
// Copies share the nodes: a copy with islands of its own costs no more than these islands.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "planner/core/model/hardware.hpp"

namespace espalier {

// The inside of one kind of node: effective bandwidth between its GPUs (from hwloc: NVLink, also
// through switches; PCIe; NUMA). Row-major, `gpus` x `gpus`, bytes/ms. The diagonal is not used.
struct NodeInside {
  int gpus = 0;
  std::vector<float> bandwidth;
  float between(int a, int b) const { return bandwidth[static_cast<std::size_t>(a * gpus + b)]; }
  bool operator==(const NodeInside&) const = default;
};

// Built once by add_node, set_inside and add_island, then only read. Reading needs no lock.
class Topology {
 public:
  Topology();

  // Adds a node. `kind`: index into Hardware::kinds. `gpu_types`: indices into Hardware::types, by
  // GRES index. `switches`: the switches above the node from the root down, as NodeView::switches.
  // Nodes without switches share one leaf. Returns the node's id: 0, 1, ... in the order of the
  // calls. Throws Error when the name is taken.
  int add_node(const std::string& name, int kind, const std::vector<std::int16_t>& gpu_types,
               const std::vector<std::string>& switches);
  // Optional. Without it all GPUs of a kind are connected with the kind's tp_bandwidth. So are GPUs
  // beyond the matrix. Throws Error when the matrix is not square.
  void set_inside(int kind, NodeInside inside);
  const NodeInside* inside(int kind) const;  // nullptr: not set

  // Makes GPUs of a node, by GRES index, an island: they reach the node's other GPUs only as they reach another node
  // under the same leaf switch. An island counts as a node of its own, with the name, kind, switches, slot and
  // gpu_types() of the node that it is part of. Returns its id, which follows the last one. The GPUs must be in no
  // island yet, and no add_node may follow.
  int add_island(int node, std::span<const int> gpus);

  int nodes() const { return static_cast<int>(all_->nodes.size() + islands_.size()); }  // and islands
  int find(const std::string& name) const;                                              // -1: unknown
  int find(const std::string& name, int gpu) const;  // the GPU's island, else the node; -1: unknown
  int whole(int node) const { return node < own_nodes() ? node : island(node).node; }  // that an island is part of
  // Whether the GPU belongs to this very island; or to the node, and to none of its islands.
  bool has(int node, int gpu) const;
  const std::string& name(int node) const { return at(node).name; }
  int kind(int node) const { return at(node).kind; }
  // Valid until the next add_node.
  const std::vector<std::int16_t>& gpu_types(int node) const {
    return all_->type_lists[static_cast<std::size_t>(at(node).types)];
  }

  // 0: the same node. 1: under one leaf switch. 2: one level above, and so on. Nodes without a
  // common switch are one level further apart than the length of the longer of their paths.
  int distance(int a, int b) const;
  // rack() numbers the leaves such that leaves under one switch stand together. slot() numbers the
  // nodes of a leaf. (rack, slot) is the paper's secondary key (Suika §3.2.1, footnote 5). It
  // depends on names ("n9" before "n10"), never on the order of add_node. Both are >= 0.
  std::int32_t rack(int node) const { return switch_at(at(node).leaf).rank; }
  std::int32_t slot(int node) const { return at(node).slot; }

  // The tree of switches, for walks over many nodes. Switch 0 is above all roots, at depth 0.
  int switches() const { return static_cast<int>(all_->switches.size()); }
  int leaf(int node) const { return at(node).leaf; }
  int parent(int switch_id) const { return switch_at(switch_id).parent; }  // of 0: -1
  int depth(int switch_id) const { return switch_at(switch_id).depth; }

  // Bandwidth in bytes/ms between two GPUs. Between nodes: one rail of the slower kind, times
  // Hardware::crossing for each level above the leaf.
  double effective_bandwidth(const Hardware& hardware, int node_a, int gpu_a, int node_b, int gpu_b) const;

 private:
  struct Node {
    std::string name;
    std::int32_t kind = 0;
    std::int32_t types = 0;  // index into type_lists_
    std::int32_t leaf = 0;
    std::int32_t slot = 0;
  };
  // A switch is identified by its name and its parent.
  struct Switch {
    std::string name;
    std::int32_t parent = -1;
    std::int32_t depth = 0;
    std::int32_t rank = 0;               // position in a walk that visits children by name
    std::vector<std::int32_t> children;  // by name
    std::vector<std::int32_t> nodes;     // nodes directly below it, by name
  };

  struct Nodes {
    std::vector<Node> nodes;
    std::vector<std::int32_t> by_name;
    std::vector<Switch> switches;
    std::vector<std::vector<std::int16_t>> type_lists;  // distinct ones
    std::vector<NodeInside> insides;                    // by kind; gpus == 0: not set
  };
  struct Island {
    std::int32_t node = 0;
    std::vector<int> gpus;
  };

  int own_nodes() const { return static_cast<int>(all_->nodes.size()); }
  const Island& island(int node) const { return islands_[static_cast<std::size_t>(node - own_nodes())]; }
  const Node& at(int node) const { return all_->nodes[static_cast<std::size_t>(whole(node))]; }
  const Switch& switch_at(int id) const { return all_->switches[static_cast<std::size_t>(id)]; }
  Nodes& own();  // to change; copies keep what they have
  static std::int32_t find_or_add_switch(Nodes& all, std::int32_t parent, const std::string& name);
  static void rank_switches(Nodes& all);

  std::shared_ptr<Nodes> all_;  // of all copies; only own() changes it
  std::vector<Island> islands_;
  std::map<std::int32_t, std::vector<std::int32_t>> of_node_;  // by node, the places of its islands there
};

// Bandwidth in bytes/ms of one rail between nodes at this distance (>= 1). `nic_a` and `nic_b` are
// the rails' bandwidths of the two nodes.
double rail_bandwidth(const Hardware& hardware, double nic_a, double nic_b, int distance);

}  // namespace espalier
