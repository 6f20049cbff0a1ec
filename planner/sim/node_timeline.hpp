// When nodes are free: the expected ends of running jobs, and reservations for waiting ones. As in Slurm's
// sched/backfill a reservation takes whole nodes (src/plugins/sched/backfill/backfill.c: node_space), while running
// jobs hold GPUs.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/cluster.hpp"

namespace espalier::sim {

class NodeTimeline {
 public:
  // The nodes on which a job can run from `start` on. They are indices in the cluster view, ascending.
  struct Slot {
    double start = std::numeric_limits<double>::infinity();  // infinity: never
    std::vector<std::size_t> nodes;
  };

  // `end_of(owner)`: when the GPUs of that owner come back; a time before `now` counts as `now`, infinity as never.
  // Idle GPUs are free now. `cluster` must outlive this object and keep its nodes.
  NodeTimeline(const ClusterView& cluster, double now, const std::function<double(JobId)>& end_of);

  // The earliest slot of `seconds` for `gpus` GPUs of this type. A job of more GPUs than a node has needs as many of
  // the largest nodes as hold them, each wholly free. Of equally early nodes the first ones. Time: the nodes and their
  // reservations, once; with several nodes they are sorted.
  Slot earliest(int gpus, const std::string& gpu_type, double seconds) const;
  // No other job may get the slot's nodes in [start, start + seconds). The slot must be one that earliest() gave for as
  // many seconds, with nothing reserved since.
  void reserve(const Slot& slot, double seconds);
  // Whether a reservation forbids that a job runs on the node from now until then.
  bool is_reserved(std::size_t node, double until) const;
  // A job holds `gpus` more of the node's GPUs, which are free now, until then.
  void occupy(std::size_t node, int gpus, double until);

 private:
  struct Node {
    std::vector<double> free_at;                          // of its GPUs, ascending
    std::vector<std::pair<double, double>> reservations;  // from, until; ascending, disjoint
  };
  int node_gpus(const std::string& gpu_type) const;
  bool serves(std::size_t node, std::size_t per_node, const std::string& gpu_type) const;

  const ClusterView& cluster_;
  const double now_;
  std::vector<Node> nodes_;
};

}  // namespace espalier::sim
