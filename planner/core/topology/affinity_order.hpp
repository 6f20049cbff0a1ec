// The order in which a job would take idle GPUs (Suika §3.2.1): by Affinity(r) = max over the GPUs r0 that it holds of
// EffectiveBandwidth(r, r0), falling; ties by (rack, node, GPU), so that GPUs near each other stand together
// (footnote 5). Prefixes of this order are the only sets that Algorithm 1 looks at.
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

// The first `most` of the `idle` GPUs in a job's order, `held` being what it has (none: all affinities are equal). The
// order of the inputs does not matter; `held` may name a node several times, `idle` once. Needs
// Hardware::crossing <= 1. A sort of the idle nodes, and at most held nodes x idle GPUs beside them: GPU by GPU is only
// looked at on nodes that the job holds.
std::vector<GpuAt> affinity_order(const Hardware& hardware, const Topology& topology, std::span<const NodeGpus> held,
                                  std::span<const NodeGpus> idle, int most = INT_MAX);

// What a solver adds at once: GPUs of one type on one node.
struct AffinityUnit {
  std::int32_t node = 0;
  std::int16_t type = 0;
  std::vector<std::int16_t> gpus;  // GRES indices
  bool operator==(const AffinityUnit&) const = default;
};

// w for a job of this many GPUs: min(ceil(N / 16), 8), rounded down to a power of two so that every TP degree up to it
// divides a unit.
int unit_size(int job_gpus);

// Cuts `order` into units of at most `size` GPUs, until they hold `most` GPUs. What is left of a node's GPUs of one
// type is a smaller unit, and so may be the last one.
std::vector<AffinityUnit> cut_units(std::span<const GpuAt> order, int size, int most = INT_MAX);

}  // namespace espalier
