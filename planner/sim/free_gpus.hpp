// GPUs that a policy may give to jobs, and how counts of them are placed: in the simulator's base queue and in policies
// that place jobs themselves.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "planner/core/cluster.hpp"

namespace espalier::sim {

class FreeGpus {
 public:
  // Idle GPUs of the usable nodes, and those whose owner `also` accepts (jobs that will give theirs up).
  explicit FreeGpus(const ClusterView& cluster, const std::function<bool(JobId)>& also = {});

  int count() const { return count_; }
  // Within a node: the fullest one that has room, first by name. More than a node holds: whole nodes, from the rack
  // (leaf switch) with the fewest free nodes that has enough, else from the racks with most. `gpus` above a node's
  // must be a multiple of it, or the rest comes from one further node. nullopt: does not fit; nothing is taken.
  // GPUs of one node stand together, in ascending order.
  std::optional<std::vector<GpuId>> take(int gpus);
  // Whether take() would succeed.
  bool fits(int gpus) const;
  // These, wherever they are; false (nothing taken) when one of them is not free.
  bool take_these(const std::vector<GpuId>& gpus);
  void give_back(const std::vector<GpuId>& gpus);
  // Free GPUs of one node, ascending; nodes by their index in the cluster view.
  const std::vector<int>& on_node(std::size_t node) const { return free_[node]; }

 private:
  std::optional<std::vector<std::size_t>> choose(int whole, int rest) const;
  const ClusterView& cluster_;
  std::vector<std::vector<int>> free_;
  int count_ = 0;
  int node_gpus_ = 1;  // the largest node's
};

}  // namespace espalier::sim
