// Arena's buddy rule (§3.5: "to ensure job locality"), for GPUs that a job takes. Pure.
#pragma once

#include <span>
#include <vector>

#include "planner/core/topology/affinity_order.hpp"

namespace espalier {

// `count` of the idle GPUs: on one node if there is one that has so many - a node where the job is before others, then
// the one with the fewest idle GPUs - else on as few nodes as can be. Between equal nodes the nearer one. `idle`: of
// one type, sorted by node. `nearest`: the same GPUs in the job's order (affinity_order.hpp). `held`: the job's,
// sorted by node. Sorted by node; empty: there are fewer.
std::vector<NodeGpus> pick_buddies(std::span<const NodeGpus> idle, std::span<const GpuAt> nearest,
                                   std::span<const NodeGpus> held, int count);

}  // namespace espalier
