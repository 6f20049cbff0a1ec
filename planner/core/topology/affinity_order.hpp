// The order in which a job takes idle GPUs (Suika §3.2.1): by falling Affinity(r), which is the
// maximum of EffectiveBandwidth(r, r0) over the GPUs r0 that the job holds. On a node where it holds
// some, that is at least the bandwidth of a rail of the node: PCIe carries both, and the inside is
// known from all-reduces, which are slower. Ties are ordered by the bandwidth inside such a node,
// then other nodes by (rack, node, GPU), so that near GPUs stand together (footnote 5). Algorithm 1
// looks only at prefixes of this order.
#pragma once

#include <climits>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/core/topology/topology.hpp"

namespace espalier {

// GPUs of one node.
struct NodeGpus {
  std::int32_t node = 0;
  std::vector<std::int16_t> gpus;  // GRES indices
  bool operator==(const NodeGpus&) const = default;
};

struct GpuAt {
  std::int32_t node = 0;
  std::int16_t gpu = 0;   // GRES index
  std::int16_t type = 0;  // index into Hardware::types
  bool operator==(const GpuAt&) const = default;
};

// Which of GPUs with the same affinity come first. In both orders, of equal nodes, one on which the job has an island.
enum class AffinityTies {
  by_place,  // as printed: those of the lower rack and node
  // Those of the nodes that have most of them, so that a job gets whole nodes and not parts of many: first the leaf
  // switch with the largest such node, then its nodes from large to small. A node with more than `most` counts as one
  // with `most`. Of those the smallest comes first, so that large nodes stay whole.
  whole_first
};

// Returns the first `most` of the `idle` GPUs in a job's order. `held`: the job's GPUs; if it is
// empty, all affinities are equal. The order of the inputs does not matter. `held` may name a node
// several times, `idle` once. Needs Hardware::crossing <= 1. Cost: a sort of the idle nodes, plus
// held x idle GPUs of each node that the job holds. On other nodes single GPUs are not looked at.
std::vector<GpuAt> affinity_order(const Hardware& hardware, const Topology& topology, std::span<const NodeGpus> held,
                                  std::span<const NodeGpus> idle, int most = INT_MAX,
                                  AffinityTies ties = AffinityTies::by_place);

// The GPUs of one type on one node that a solver adds at once.
struct AffinityUnit {
  std::int32_t node = 0;
  std::int16_t type = 0;
  std::vector<std::int16_t> gpus;  // GRES indices
  bool operator==(const AffinityUnit&) const = default;
};

// Unit size w for a job of this many GPUs: min(ceil(N / 16), 8), rounded down to a power of two.
// Every TP degree up to w then divides a unit.
int unit_size(int job_gpus);

// Cuts `order` into units of at most `size` GPUs, until they hold `most` GPUs. The remainder of a
// node's GPUs of one type is a smaller unit. The last unit may be smaller too.
std::vector<AffinityUnit> cut_units(std::span<const GpuAt> order, int size, int most = INT_MAX);

}  // namespace espalier
