#include "planner/core/topology/affinity_order.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>
#include <utility>

#include "planner/core/error.hpp"

namespace espalier {
namespace {

double nic(const Hardware& hardware, const Topology& topology, int node) {
  return hardware.kinds[static_cast<std::size_t>(topology.kind(node))].nic_bandwidth;
}

// A job's place seen from the switches: for each switch and each depth of the leaves below it, the
// fastest rail of the nodes that the job holds there. A node's affinity then follows from the
// switches above the node alone.
class HeldPrefixes {
 public:
  HeldPrefixes(const Hardware& hardware, const Topology& topology, std::span<const NodeGpus> held)
      : hardware_(hardware), topology_(topology) {
    for (const NodeGpus& one : held) depths_ = std::max(depths_, topology.depth(topology.leaf(one.node)) + 1);
    fastest_.assign(static_cast<std::size_t>(topology.switches() * depths_), -1);
    known_.assign(static_cast<std::size_t>(topology.switches()) * hardware.kinds.size(), -1);
    for (const NodeGpus& one : held) {
      if (one.gpus.empty()) continue;
      const int leaf = topology.leaf(one.node);
      for (int above = leaf; above >= 0; above = topology.parent(above)) {
        double& best = fastest_[slot(above, topology.depth(leaf))];
        best = std::max(best, nic(hardware, topology, one.node));
      }
    }
  }

  // Affinity of every GPU on a node where the job holds no GPU.
  double affinity(int node) {
    const auto kinds = hardware_.kinds.size();
    double& known =
        known_[static_cast<std::size_t>(topology_.leaf(node)) * kinds + static_cast<std::size_t>(topology_.kind(node))];
    if (known < 0) known = compute(topology_.leaf(node), nic(hardware_, topology_, node));
    return known;
  }

 private:
  std::size_t slot(int switch_id, int leaf_depth) const {
    return static_cast<std::size_t>(switch_id * depths_ + leaf_depth);
  }

  // A held node counts at every switch that it shares with `leaf`. The lowest shared switch is the
  // right one. It also gives the highest bandwidth, because crossings only reduce it.
  double compute(int leaf, double rail) const {
    double best = 0;
    for (int above = leaf; above >= 0; above = topology_.parent(above))
      for (int held_depth = topology_.depth(above); held_depth < depths_; ++held_depth) {
        const double other = fastest_[slot(above, held_depth)];
        if (other < 0) continue;
        const int distance = std::max(topology_.depth(leaf), held_depth) - topology_.depth(above) + 1;
        best = std::max(best, rail_bandwidth(hardware_, rail, other, distance));
      }
    return best;
  }

  const Hardware& hardware_;
  const Topology& topology_;
  int depths_ = 1;
  std::vector<double> fastest_;  // by switch and depth of the held leaf; -1: none
  std::vector<double> known_;    // by leaf and kind; -1: not computed yet
};

constexpr double kElsewhere = -1;

// Idle GPUs of one node that have the same affinity.
struct Group {
  double affinity = 0;
  // Of GPUs on a node where the job holds some: their bandwidth to the nearest of these. It orders GPUs that the rail
  // makes equal, and puts them before those of other nodes.
  double inside = kElsewhere;
  // With whole_first, what counts of the leaf's largest node and of this one (AffinityTies), below 0, so that more
  // comes first; and the node's GPUs.
  std::int32_t leaf_fit = 0, fit = 0, size = 0;
  std::int32_t rack = 0, slot = 0;
  bool beside = false;    // the job has an island on the node
  std::int16_t gpu = -1;  // -1: the whole list
  std::int32_t list = 0;  // index into the idle lists

  bool operator<(const Group& other) const {
    if (affinity != other.affinity) return affinity > other.affinity;
    if (inside != other.inside) return inside > other.inside;
    const auto place = [](const Group& one) {
      return std::tuple(one.leaf_fit, one.rack, one.fit, one.size, !one.beside, one.slot, one.gpu);
    };
    return place(*this) < place(other);
  }
};

// A leaf counts as much as its largest node, among the GPUs of the same affinity there.
void weigh_leaves(std::vector<Group>& groups) {
  std::map<std::tuple<double, double, std::int32_t>, std::int32_t> largest;
  for (const Group& group : groups) {
    std::int32_t& fit = largest[{group.affinity, group.inside, group.rack}];
    fit = std::min(fit, group.fit);
  }
  for (Group& group : groups) group.leaf_fit = largest[{group.affinity, group.inside, group.rack}];
}

// One list per node, sorted by node.
std::vector<NodeGpus> merged(std::span<const NodeGpus> lists) {
  std::vector<NodeGpus> sorted(lists.begin(), lists.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
  std::vector<NodeGpus> result;
  for (NodeGpus& one : sorted) {
    if (one.gpus.empty()) continue;
    if (result.empty() || result.back().node != one.node) result.push_back(std::move(one));
    else result.back().gpus.insert(result.back().gpus.end(), one.gpus.begin(), one.gpus.end());
  }
  return result;
}

// Bandwidth of one GPU to the nearest of those that the job holds on its node.
double bandwidth_inside(const Hardware& hardware, const Topology& topology, const NodeGpus& held, int gpu) {
  double best = 0;
  for (const int other : held.gpus)
    best = std::max(best, topology.effective_bandwidth(hardware, held.node, gpu, held.node, other));
  return best;
}

// Appends a list's GPUs by index.
void append(const Topology& topology, int node, std::span<const std::int16_t> gpus, std::vector<GpuAt>& out) {
  const auto& types = topology.gpu_types(node);
  const auto begin = static_cast<std::ptrdiff_t>(out.size());
  for (const std::int16_t gpu : gpus) {
    ESPALIER_INVARIANT(gpu >= 0 && static_cast<std::size_t>(gpu) < types.size());
    out.push_back({node, gpu, types[static_cast<std::size_t>(gpu)]});
  }
  const auto by_index = [](const GpuAt& a, const GpuAt& b) { return a.gpu < b.gpu; };
  if (!std::is_sorted(out.begin() + begin, out.end(), by_index)) std::sort(out.begin() + begin, out.end(), by_index);
}

}  // namespace

std::vector<GpuAt> affinity_order(const Hardware& hardware, const Topology& topology, std::span<const NodeGpus> held,
                                  std::span<const NodeGpus> idle, int most, AffinityTies ties) {
  const std::vector<NodeGpus> holding = merged(held);
  HeldPrefixes prefixes(hardware, topology, holding);
  std::vector<const NodeGpus*> held_here(static_cast<std::size_t>(topology.nodes()), nullptr);
  std::vector<std::int8_t> beside(held_here.size(), 0);
  for (const NodeGpus& one : holding) {
    held_here[static_cast<std::size_t>(one.node)] = &one;
    if (const int whole = topology.whole(one.node); whole != one.node) beside[static_cast<std::size_t>(whole)] = 1;
  }

  std::vector<Group> groups;
  groups.reserve(idle.size());
  std::size_t total = 0;
  for (std::size_t i = 0; i < idle.size(); ++i) {
    if (idle[i].gpus.empty()) continue;
    const int node = idle[i].node;
    total += idle[i].gpus.size();
    Group group;
    group.rack = topology.rack(node);
    group.slot = topology.slot(node);
    group.beside = beside[static_cast<std::size_t>(node)] != 0;
    if (ties == AffinityTies::whole_first) {
      group.size = static_cast<std::int32_t>(idle[i].gpus.size());
      group.fit = -std::min(group.size, static_cast<std::int32_t>(std::max(most, 0)));
    }
    group.list = static_cast<std::int32_t>(i);
    const NodeGpus* const here = held_here[static_cast<std::size_t>(node)];
    if (here == nullptr) {
      group.affinity = prefixes.affinity(node);
      groups.push_back(group);
      continue;
    }
    for (const std::int16_t gpu : idle[i].gpus) {
      group.inside = bandwidth_inside(hardware, topology, *here, gpu);
      // A rail begins with the GPU's own PCIe link, so no other node is nearer, whatever all-reduces reach inside.
      group.affinity = std::max(group.inside, nic(hardware, topology, node));
      group.gpu = gpu;
      groups.push_back(group);
    }
  }

  if (ties == AffinityTies::whole_first) weigh_leaves(groups);
  const std::size_t wanted = std::min(total, static_cast<std::size_t>(std::max(most, 0)));
  if (wanted < groups.size())
    std::partial_sort(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(wanted), groups.end());
  else std::sort(groups.begin(), groups.end());

  std::vector<GpuAt> order;
  order.reserve(wanted + 8);
  for (const Group& group : groups) {
    if (order.size() >= wanted) break;
    const NodeGpus& list = idle[static_cast<std::size_t>(group.list)];
    if (group.gpu < 0) append(topology, list.node, list.gpus, order);
    else append(topology, list.node, std::span(&group.gpu, 1), order);
  }
  if (order.size() > wanted) order.resize(wanted);
  return order;
}

int unit_size(int job_gpus) {
  const int wanted = std::clamp((job_gpus + 15) / 16, 1, 8);
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(wanted)));
}

std::vector<AffinityUnit> cut_units(std::span<const GpuAt> order, int size, int most) {
  ESPALIER_INVARIANT(size >= 1);
  std::vector<AffinityUnit> units;
  int left = most;
  for (std::size_t begin = 0; begin < order.size() && left > 0;) {
    const std::int32_t node = order[begin].node;
    std::size_t end = begin;
    // Each type has its own open unit, because a node may mix types in any order.
    const std::size_t first_unit = units.size();
    for (; end < order.size() && order[end].node == node && left > 0; ++end, --left) {
      const GpuAt& gpu = order[end];
      const auto open = std::find_if(
          units.begin() + static_cast<std::ptrdiff_t>(first_unit), units.end(), [&](const AffinityUnit& unit) {
            return unit.type == gpu.type && unit.gpus.size() < static_cast<std::size_t>(size);
          });
      if (open != units.end()) open->gpus.push_back(gpu.gpu);
      else units.push_back({node, gpu.type, {gpu.gpu}});
    }
    begin = end;
  }
  return units;
}

}  // namespace espalier
