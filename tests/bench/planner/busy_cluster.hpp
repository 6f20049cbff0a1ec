// A cluster full of the paper's jobs, for measuring decisions: jobs end and arrive at random, decisions take effect at
// once.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "planner/core/scheduler.hpp"
#include "tests/bench/planner/paper_cluster.hpp"

namespace espalier::bench {

class BusyCluster {
 public:
  // Filled with jobs up to a basic load of 85-95% of `gpus` (a multiple of 8; racks of 16 nodes).
  BusyCluster(int gpus, unsigned seed);

  const PlanningInput& input() const { return input_; }

  // A random job ends; its GPUs and its extensions' are idle.
  void end_one();
  // While the basic demands are below the load aimed at, a job arrives. True: one waits now, this one or one before.
  bool submit_one();
  // The waiting job starts if its GPUs are idle (true), else it waits on, first in first out: otherwise the large ones
  // would never get in.
  bool start_waiting();
  void apply(const std::vector<Decision>& decisions);

  int busy_jobs() const { return static_cast<int>(input_.jobs.size()); }
  double load() const;

 private:
  int roll(int low, int high);
  const PaperJob& random_job();
  bool place(const PaperJob& kind);
  void free_job(JobId slurm_job);
  void own(const GpuId& gpu, JobId owner);
  NodeView& node(const std::string& name);
  void drop_job(std::size_t index);
  std::optional<std::vector<GpuId>> find_gpus(int gpus);

  std::mt19937 random_;
  PlanningInput input_;
  std::map<std::string, std::size_t> node_index_;
  JobId next_id_ = 1;
  const PaperJob* waiting_ = nullptr;
  double target_ = 0.9;
  int basic_ = 0, gpus_ = 0;
};

// Sum over the decided jobs of |R0| (T(next) / T(R0) - 1), in GPUs: what Algorithm 2 maximizes.
double total_gain(const PlanningInput& input, const std::vector<Decision>& decisions);

}  // namespace espalier::bench
