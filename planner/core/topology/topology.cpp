#include "planner/core/topology/topology.hpp"

#include <algorithm>
#include <cstring>

#include "planner/core/error.hpp"

namespace espalier {
namespace {

// n9 comes before n10, as people number machines.
bool before(const std::string& a, const std::string& b) { return ::strverscmp(a.c_str(), b.c_str()) < 0; }

}  // namespace

Topology::Topology() : all_(std::make_shared<Nodes>()) { all_->switches.resize(1); }

Topology::Nodes& Topology::own() {
  if (all_.use_count() > 1) all_ = std::make_shared<Nodes>(*all_);
  return *all_;
}

int Topology::add_node(const std::string& name, int kind, const std::vector<std::int16_t>& gpu_types,
                       const std::vector<std::string>& switches) {
  ESPALIER_INVARIANT(kind >= 0 && islands_.empty());
  Nodes& all = own();
  const auto place = std::lower_bound(all.by_name.begin(), all.by_name.end(), name,
                                      [&](std::int32_t id, const std::string& wanted) { return at(id).name < wanted; });
  if (place != all.by_name.end() && at(*place).name == name)
    throw Error("node " + name + ": named twice in the topology; node names must be unique");
  const int id = nodes();
  all.by_name.insert(place, id);

  Node node;
  node.name = name;
  node.kind = kind;
  const auto list = std::find(all.type_lists.begin(), all.type_lists.end(), gpu_types);
  node.types = static_cast<std::int32_t>(list - all.type_lists.begin());
  if (list == all.type_lists.end()) all.type_lists.push_back(gpu_types);
  for (const std::string& above : switches) node.leaf = find_or_add_switch(all, node.leaf, above);
  all.nodes.push_back(std::move(node));

  auto& siblings = all.switches[static_cast<std::size_t>(all.nodes.back().leaf)].nodes;
  auto slot =
      std::lower_bound(siblings.begin(), siblings.end(), name,
                       [&](std::int32_t other, const std::string& wanted) { return before(at(other).name, wanted); });
  for (slot = siblings.insert(slot, id); slot != siblings.end(); ++slot)
    all.nodes[static_cast<std::size_t>(*slot)].slot = static_cast<std::int32_t>(slot - siblings.begin());
  return id;
}

std::int32_t Topology::find_or_add_switch(Nodes& all, std::int32_t parent, const std::string& name) {
  auto& children = all.switches[static_cast<std::size_t>(parent)].children;
  const auto place =
      std::lower_bound(children.begin(), children.end(), name, [&](std::int32_t id, const std::string& wanted) {
        return before(all.switches[static_cast<std::size_t>(id)].name, wanted);
      });
  if (place != children.end() && all.switches[static_cast<std::size_t>(*place)].name == name) return *place;
  const auto id = static_cast<std::int32_t>(all.switches.size());
  children.insert(place, id);
  Switch added;
  added.name = name;
  added.parent = parent;
  added.depth = all.switches[static_cast<std::size_t>(parent)].depth + 1;
  all.switches.push_back(std::move(added));
  rank_switches(all);
  return id;
}

void Topology::rank_switches(Nodes& all) {
  std::vector<std::int32_t> open{0};
  for (std::int32_t rank = 0; !open.empty(); ++rank) {
    Switch& next = all.switches[static_cast<std::size_t>(open.back())];
    open.pop_back();
    next.rank = rank;
    open.insert(open.end(), next.children.rbegin(), next.children.rend());
  }
}

int Topology::add_island(int node, std::span<const int> gpus) {
  ESPALIER_INVARIANT(node >= 0 && node < own_nodes());
  for (const int gpu : gpus) ESPALIER_INVARIANT(has(node, gpu));
  of_node_[node].push_back(static_cast<std::int32_t>(islands_.size()));
  islands_.push_back({node, {gpus.begin(), gpus.end()}});
  return nodes() - 1;
}

void Topology::set_inside(int kind, NodeInside inside) {
  ESPALIER_INVARIANT(kind >= 0);
  const auto gpus = static_cast<std::size_t>(std::max(inside.gpus, 0));
  if (inside.gpus < 0 || inside.bandwidth.size() != gpus * gpus)
    throw Error("inside of node kind " + std::to_string(kind) + ": " + std::to_string(inside.bandwidth.size()) +
                " bandwidths for " + std::to_string(inside.gpus) + " GPUs");
  auto& insides = own().insides;
  if (insides.size() <= static_cast<std::size_t>(kind)) insides.resize(static_cast<std::size_t>(kind) + 1);
  insides[static_cast<std::size_t>(kind)] = std::move(inside);
}

const NodeInside* Topology::inside(int kind) const {
  if (static_cast<std::size_t>(kind) >= all_->insides.size()) return nullptr;
  const NodeInside& found = all_->insides[static_cast<std::size_t>(kind)];
  return found.gpus > 0 ? &found : nullptr;
}

int Topology::find(const std::string& name) const {
  const auto& by_name = all_->by_name;
  const auto place = std::lower_bound(by_name.begin(), by_name.end(), name,
                                      [&](std::int32_t id, const std::string& wanted) { return at(id).name < wanted; });
  return place != by_name.end() && at(*place).name == name ? *place : -1;
}

int Topology::find(const std::string& name, int gpu) const {
  const int node = find(name);
  const auto divided = of_node_.find(node);
  if (divided == of_node_.end()) return node;
  for (const std::int32_t place : divided->second) {
    const auto& gpus = islands_[static_cast<std::size_t>(place)].gpus;
    if (std::find(gpus.begin(), gpus.end(), gpu) != gpus.end()) return own_nodes() + place;
  }
  return node;
}

bool Topology::has(int node, int gpu) const {
  if (gpu < 0 || static_cast<std::size_t>(gpu) >= gpu_types(node).size()) return false;
  const auto in = [gpu](const Island& one) {
    return std::find(one.gpus.begin(), one.gpus.end(), gpu) != one.gpus.end();
  };
  if (node >= own_nodes()) return in(island(node));
  const auto divided = of_node_.find(node);
  return divided == of_node_.end() ||
         std::none_of(divided->second.begin(), divided->second.end(),
                      [&](std::int32_t place) { return in(islands_[static_cast<std::size_t>(place)]); });
}

int Topology::distance(int a, int b) const {
  if (a == b) return 0;
  int switch_a = leaf(a), switch_b = leaf(b);
  const int deeper = std::max(depth(switch_a), depth(switch_b));
  while (switch_a != switch_b) {
    const int depth_a = depth(switch_a), depth_b = depth(switch_b);
    if (depth_a >= depth_b) switch_a = parent(switch_a);
    if (depth_b >= depth_a) switch_b = parent(switch_b);
  }
  return deeper - depth(switch_a) + 1;
}

double rail_bandwidth(const Hardware& hardware, double nic_a, double nic_b, int distance) {
  double bandwidth = std::min(nic_a, nic_b);
  for (int level = 1; level < distance; ++level) bandwidth *= hardware.crossing;
  return bandwidth;
}

double Topology::effective_bandwidth(const Hardware& hardware, int node_a, int gpu_a, int node_b, int gpu_b) const {
  const NodeKind& kind_a = hardware.kinds[static_cast<std::size_t>(kind(node_a))];
  if (node_a != node_b) {
    const NodeKind& kind_b = hardware.kinds[static_cast<std::size_t>(kind(node_b))];
    return rail_bandwidth(hardware, kind_a.nic_bandwidth, kind_b.nic_bandwidth, distance(node_a, node_b));
  }
  const NodeInside* known = inside(kind(node_a));
  if (known == nullptr || gpu_a >= known->gpus || gpu_b >= known->gpus) return kind_a.tp_bandwidth;
  return known->between(gpu_a, gpu_b);
}

}  // namespace espalier
