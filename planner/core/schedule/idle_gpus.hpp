// The idle GPUs of one decision: drawn down as scale-outs are taken in the virtual cluster.
#pragma once

#include <vector>

#include "planner/core/affinity.hpp"
#include "planner/core/scheduler.hpp"
#include "planner/core/topology/affinity_order.hpp"

namespace espalier {

class IdleGpus {
 public:
  // `supplies`: what waiting jobs leave; their nodes must be the site's.
  IdleGpus(const std::vector<Supply>& supplies, const Site& site);

  bool empty() const { return idle_.empty(); }
  int count() const;
  // What `job` may take: types it allows, and on nodes beside its anchor's only where it has no extension yet (ranks of
  // a second one would be children of the first, and die of its preemption). Not on nodes where one of the idle GPUs is
  // unfit for it: Slurm chooses which ones of a node it gets.
  std::vector<NodeGpus> for_job(const ElasticJob& job, const PlanBounds& bounds) const;
  // Whether as many GPUs of the first `count` units' types are still idle on their nodes, if not the very same.
  bool has(const std::vector<AffinityUnit>& units, std::size_t count) const;
  void take(const std::vector<AffinityUnit>& units, std::size_t count);

 private:
  bool holds(const NodeGpus& node, const GpuId& gpu) const;

  const Site& site_;
  std::vector<NodeGpus> idle_;  // sorted by node
};

}  // namespace espalier
