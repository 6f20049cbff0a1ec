// The cluster as one decision sees it: a snapshot, made by the daemon from Slurm or by the simulator.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier {

// More than any node has; whatever is counted by GPU index is bounded by it.
inline constexpr int kMostGpusOfNode = 4096;

struct NodeView {
  std::string name;
  std::string gpu_type;               // Slurm's GRES type, e.g. "h100"
  std::vector<std::string> switches;  // from the root down, e.g. {"spine", "leaf1"}; may be empty
  std::vector<JobId> gpu_owner;       // per GRES index: the Slurm job that holds it, 0 = idle
  std::vector<int> freeing;           // held indices whose holder is on its way out: for waiting jobs, not for growth
  int free_cpus = 0;
  long free_memory_mb = 0;
  bool usable = true;  // up, not draining, in the extension partition

  int idle_gpus() const;
};

// A plain (or not yet started elastic) job that waits for GPUs.
struct WaitingJob {
  JobId id = 0;
  int gpus = 0;                          // in total
  int nodes = 1;                         // minimum node count
  std::vector<std::string> only_nodes;   // required node list, sorted; empty: any
  std::optional<double> expected_start;  // seconds, the clock of PlanningInput::now
  double priority = 0;                   // Slurm's; higher is served first
  // It is new, and Slurm may start it or preempt extensions for it in a moment: to take others back at the same time
  // would cost two jobs their GPUs for one.
  bool left_to_slurm = false;
};

struct ClusterView {
  std::vector<NodeView> nodes;  // sorted by name
  std::vector<WaitingJob> waiting;
  const NodeView* find(const std::string& name) const;
};

}  // namespace espalier
