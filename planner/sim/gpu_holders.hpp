// The holders of the simulated cluster's GPUs.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/core/scheduler.hpp"

namespace espalier::sim {

// The plan's GPUs by node, in the order of its ranks' nodes, held by `owner`.
std::vector<Holding> holdings_of(const Plan& plan, JobId owner);

// Union of both lists, one entry per node.
std::vector<Holding> merged(std::vector<Holding> a, const std::vector<Holding>& b);

// Keeps the owners in a planning input's cluster, and the input's list of extensions. The input
// must outlive this object and keep its nodes.
class GpuHolders {
 public:
  explicit GpuHolders(PlanningInput& input) : input_(input) {}
  void know_nodes();  // call when the nodes are in the input

  NodeView& node(const std::string& name);
  // Owner 0: idle. A GPU must become idle before it changes its owner.
  void own(const Holding& held, JobId owner);
  // Why `wanted` cannot be taken. nullopt: all GPUs are idle or belong to one of `or_owned_by`.
  std::optional<std::string> obstacle(const std::vector<Holding>& wanted, const std::set<JobId>& or_owned_by) const;

  bool is_extension(JobId id) const;
  void add_extension(const Holding& extension);  // ids must rise from call to call
  void drop_extension(ElasticJob& job, JobId extension);
  void no_longer_freeing(const ElasticJob& job, JobId extension);
  void forget_extension(JobId id);

 private:
  PlanningInput& input_;
  std::map<std::string, std::size_t> node_index_;
};

}  // namespace espalier::sim
