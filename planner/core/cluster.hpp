// A snapshot of the cluster for one decision. The daemon makes it from Slurm, or the simulator
// makes it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/node_list.hpp"

namespace espalier {

// No node has this many GPUs. GPU indices stay below it, and so do counts of a node's GPUs.
inline constexpr int kMostGpusOfNode = 4096;

struct NodeView {
  std::string name;
  std::string gpu_type;               // Slurm's GRES type, e.g. "h100"
  std::vector<std::string> switches;  // from the root down, e.g. {"spine", "leaf1"}; may be empty
  std::vector<JobId> gpu_owner;       // per GRES index: the Slurm job that holds it, 0 = idle
  // Held indices that will be idle soon; waiting jobs may get them, growth may not.
  std::vector<int> freeing;
  int free_cpus = 0;
  int cpus = 0;  // of all jobs together; 0: not known
  long free_memory_mb = 0;
  bool usable = true;  // up, not draining, in the extension partition
  int memory_mb = 0;   // of all jobs together; 0: not known
  // Why the site's health check keeps new extensions, and bases that move, from this node; empty: it does not.
  std::string unhealthy;
  bool cpu_jobs = false;  // jobs that have none of its GPUs run on it

  int idle_gpus() const;
};

// A plain (or not yet started elastic) job that waits for GPUs.
struct WaitingJob {
  JobId id = 0;
  int gpus = 0;                          // in total
  int nodes = 1;                         // minimum node count
  NodeList only_nodes;                   // where it may run, sorted; empty: anywhere
  std::optional<double> expected_start;  // seconds, the clock of PlanningInput::now
  double priority = 0;                   // Slurm's; higher is served first
  // The job is new. Slurm may start it, or preempt extensions for it, in a moment. If the planner
  // reclaimed other extensions at the same time, two jobs would lose GPUs instead of one.
  bool left_to_slurm = false;
  int tasks = 1;  // of a job array: how many like this one wait
  // Slurm itself takes extensions back for it.
  bool slurm_preempts = false;
  // Slurm, which preempts extensions, has looked at it for a while and starts it at `expected_start` all the same. So
  // it lacks something other than GPUs, or jobs before it get these GPUs first.
  bool starts_later = false;
  bool whole_nodes = false;  // shares a node with no other job (--exclusive)
  int cpus = 0;              // of each node, on average
  long memory_mb = 0;        // of each node; negative: all of it
};

struct ClusterView {
  std::vector<NodeView> nodes;  // sorted by name
  std::vector<WaitingJob> waiting;
  // Those without GPUs for which Slurm takes no extension back. They can only lack CPUs or memory.
  std::vector<WaitingJob> waiting_for_cpus;
  const NodeView* find(const std::string& name) const;
  NodeView* find(const std::string& name) { return const_cast<NodeView*>(std::as_const(*this).find(name)); }
};

}  // namespace espalier
