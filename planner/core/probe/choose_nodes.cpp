#include "planner/core/probe/choose_nodes.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace espalier {
namespace {

constexpr std::size_t kEnoughToCompare = 4;

int distance_of(const Topology& topology, const std::string& a, const std::string& b) {
  return topology.distance(topology.find(a), topology.find(b));
}

class Choice {
 public:
  Choice(const std::vector<ProbeNode>& nodes, const Topology& topology, std::size_t most)
      : nodes_(nodes), topology_(topology), most_(most) {
    std::stable_sort(nodes_.begin(), nodes_.end(),
                     [](const ProbeNode& a, const ProbeNode& b) { return a.idle && !b.idle; });
  }

  void cover_types() {
    std::set<std::string> types;
    for (const ProbeNode& node : nodes_)
      if (types.insert(node.gpu_type).second) add(node.name);
  }

  // Gives each chosen node another one under its leaf. Goes on to a node at a distance that no two chosen
  // nodes have yet, and where there is none to the farthest leaf.
  void cover_levels() {
    while (chosen_.size() < most_) {
      for (const std::string& name : std::vector(chosen_)) add_neighbour(name);
      const ProbeNode* next = nullptr;
      int farthest = 1;
      const std::set<int> known = distances();
      for (const ProbeNode& node : nodes_) {
        if (has(node.name)) continue;
        int nearest = 1 << 20;
        bool fresh = false;
        for (const std::string& name : chosen_) {
          const int distance = distance_of(topology_, name, node.name);
          nearest = std::min(nearest, distance);
          fresh = fresh || !known.contains(distance);
        }
        if (fresh) {
          next = &node;
          break;
        }
        if (nearest > farthest) farthest = nearest, next = &node;
      }
      if (next == nullptr) return;
      add(next->name);
    }
  }

  void fill(std::size_t enough) {
    for (const ProbeNode& node : nodes_)
      if (chosen_.size() < enough) add(node.name);
  }

  std::vector<std::string> take() {
    std::sort(chosen_.begin(), chosen_.end());
    return std::move(chosen_);
  }

 private:
  bool has(const std::string& name) const { return std::find(chosen_.begin(), chosen_.end(), name) != chosen_.end(); }
  void add(const std::string& name) {
    if (chosen_.size() < most_ && !has(name)) chosen_.push_back(name);
  }
  std::set<int> distances() const {
    std::set<int> known;
    for (const std::string& a : chosen_)
      for (const std::string& b : chosen_)
        if (a < b) known.insert(distance_of(topology_, a, b));
    return known;
  }
  void add_neighbour(const std::string& of) {
    for (const std::string& name : chosen_)
      if (name != of && distance_of(topology_, name, of) == 1) return;
    for (const ProbeNode& node : nodes_)
      if (!has(node.name) && distance_of(topology_, node.name, of) == 1) return add(node.name);
  }

  std::vector<ProbeNode> nodes_;
  const Topology& topology_;
  std::size_t most_;
  std::vector<std::string> chosen_;
};

}  // namespace

std::vector<std::string> choose_nodes(const std::vector<ProbeNode>& nodes, const Topology& topology, std::size_t most) {
  Choice choice(nodes, topology, most);
  choice.cover_types();
  choice.cover_levels();
  choice.fill(std::min(most, kEnoughToCompare));
  return choice.take();
}

std::vector<NodePair> choose_pairs(const std::vector<std::string>& nodes, const Topology& topology) {
  constexpr int kPartners = 2;
  std::map<int, std::set<NodePair>> by_level;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::map<int, int> partners;
    for (std::size_t step = 1; step < nodes.size(); ++step) {
      const std::string& other = nodes[(i + step) % nodes.size()];
      const int level = distance_of(topology, nodes[i], other);
      if (nodes.size() > kMostChosenNodes && ++partners[level] > kPartners) continue;
      by_level[level].insert(std::minmax(nodes[i], other));
    }
  }
  std::vector<NodePair> pairs;
  for (const auto& [level, some] : by_level) pairs.insert(pairs.end(), some.begin(), some.end());
  return pairs;
}

}  // namespace espalier
