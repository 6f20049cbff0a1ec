// GPUs that may be given to jobs, and how counts of them are placed: by the simulator's base queue, and by policies
// that place jobs themselves.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/cluster.hpp"

namespace espalier::sim {

class FreeGpus {
 public:
  using Owners = std::function<bool(JobId)>;
  // Idle GPUs of the usable nodes, and those whose owner `also` accepts (jobs that will give theirs up). Those whose
  // owner `passing` accepts are not free, but make their node no fuller: extensions, which go when their GPUs are
  // needed. `cluster` must outlive this.
  explicit FreeGpus(const ClusterView& cluster, const Owners& also = {}, const Owners& passing = {});

  int count() const { return count_; }
  // All of one GPU type, `type` where it is given. Within a node: the fullest one that has room, first by name. More
  // than a node holds: whole nodes of one rack (leaf switch), the rack with the fewest free nodes that has enough, else
  // from the racks that have most; what is no multiple of a node comes from one node more; where that is not to be had,
  // equal parts of as many nodes. nullopt: does not fit, and nothing is taken. GPUs of one node stand together, in
  // ascending order.
  std::optional<std::vector<GpuId>> take(int gpus, const std::string& type = {});
  // These, wherever they are; false (nothing taken) when one of them is not free.
  bool take_these(const std::vector<GpuId>& gpus);
  void give_back(const std::vector<GpuId>& gpus);
  // Free GPUs of one node, ascending; nodes by their index in the cluster view.
  const std::vector<int>& on_node(std::size_t node) const { return free_[node]; }

 private:
  std::vector<std::size_t> within_a_node(int gpus, const std::string& type, const std::vector<std::size_t>& but) const;
  std::vector<std::size_t> whole_nodes(int nodes, int size, const std::string& type) const;
  std::optional<std::size_t> index_of(const std::string& node) const;
  bool spread(int gpus, int size, const std::string& type, std::vector<GpuId>& taken);
  void take_from(std::size_t node, int gpus, std::vector<GpuId>& taken);

  const ClusterView& cluster_;
  std::vector<std::vector<int>> free_;
  std::vector<std::size_t> passing_;  // by node
  int count_ = 0;
};

}  // namespace espalier::sim
