// The idle GPUs of one decision. Scale-outs in the virtual cluster reduce them.
#pragma once

#include <vector>

#include "planner/core/affinity.hpp"
#include "planner/core/scheduler.hpp"
#include "planner/core/topology/affinity_order.hpp"

namespace espalier {

class IdleGpus {
 public:
  // `supplies`: the resources that waiting jobs leave. Their nodes must be the site's. `closed`:
  // PlanningInput::closed. It and the site must outlive the object.
  IdleGpus(const std::vector<Supply>& supplies, const Site& site, const std::map<JobId, NodeNames>& closed);

  bool empty() const { return idle_.empty(); }
  int count() const;
  // The idle GPUs that `job` may take:
  // - Only GPU types that it allows.
  // - Also on nodes where it has GPUs already: a node may hold several extensions of a job.
  // - No nodes where an idle GPU is unfit for the job, because Slurm chooses which of a node's GPUs
  //   the job gets.
  // - No nodes that are closed to it.
  std::vector<NodeGpus> for_job(const ElasticJob& job, const PlanBounds& bounds) const;
  // Whether the nodes of the first `count` units still have enough idle GPUs of the units' types.
  // They need not be the same GPUs.
  bool has(const std::vector<AffinityUnit>& units, std::size_t count) const;
  void take(const std::vector<AffinityUnit>& units, std::size_t count);

 private:
  bool holds(const NodeGpus& node, const GpuId& gpu) const;

  const Site& site_;
  const std::map<JobId, NodeNames>& closed_;
  std::vector<NodeGpus> idle_;  // sorted by node
};

}  // namespace espalier
