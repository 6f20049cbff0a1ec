// GPUs that may be given to jobs, and the rules by which counts of GPUs are placed. Used by the
// simulator's base queue and by policies that place jobs themselves.
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
  // Free are the idle GPUs of the usable nodes, and GPUs whose owner `also` accepts (jobs that will
  // give them up). GPUs whose owner `passing` accepts are not free, but do not make their node
  // fuller: extensions, which leave when their GPUs are needed. `cluster` must outlive this object.
  explicit FreeGpus(const ClusterView& cluster, const Owners& also = {}, const Owners& passing = {});

  int count() const { return count_; }
  // Takes GPUs of one type, of `type` if it is given. Up to a node's GPUs: from the fullest node
  // with room, first by name. More than a node's GPUs: whole nodes of one rack (leaf switch). The
  // rack is the one with the fewest free nodes that suffice. If no rack suffices, the nodes come
  // from the racks with most free nodes. A remainder comes from one more node. If that is
  // impossible, equal parts come from several nodes. nullopt: the GPUs do not fit, and none is
  // taken. GPUs of one node stand together, in ascending order.
  std::optional<std::vector<GpuId>> take(int gpus, const std::string& type = {});
  // Takes exactly these GPUs. False: one of them is not free, and none is taken.
  bool take_these(const std::vector<GpuId>& gpus);
  void give_back(const std::vector<GpuId>& gpus);
  // Between the two calls the node's free GPUs do not count, and none is taken or given back there. `node`: index in
  // the cluster view.
  void close(std::size_t node);
  void open(std::size_t node);
  // Free GPUs of one node, ascending. `node`: index in the cluster view.
  const std::vector<int>& on_node(std::size_t node) const { return free_[node]; }

 private:
  std::vector<std::size_t> within_a_node(int gpus, const std::string& type, const std::vector<std::size_t>& but) const;
  std::vector<std::size_t> whole_nodes(int nodes, int size, const std::string& type) const;
  std::optional<std::size_t> index_of(const std::string& node) const;
  bool spread(int gpus, int size, const std::string& type, std::vector<GpuId>& taken);
  void take_from(std::size_t node, int gpus, std::vector<GpuId>& taken);

  const ClusterView& cluster_;
  std::vector<std::vector<int>> free_;
  std::vector<std::size_t> passing_;      // by node
  std::vector<std::vector<int>> closed_;  // by node; empty: no node was ever closed
  int count_ = 0;
};

}  // namespace espalier::sim
