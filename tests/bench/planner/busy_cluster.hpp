// A cluster full of the paper's jobs, for measuring decisions. Jobs end and arrive at random.
// Decisions take effect at once.
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
  // Fills the cluster with jobs up to a basic load of 85-95% of `gpus`. `gpus` is a multiple of 8.
  // A rack has 16 nodes.
  BusyCluster(int gpus, unsigned seed);

  const PlanningInput& input() const { return input_; }

  // A random job ends. Its GPUs and its extensions' GPUs become idle.
  void end_one();
  // A job arrives while the basic demands are below the load aimed at. True: a job waits now, this
  // one or an earlier one.
  bool submit_one();
  // Starts the waiting job if its GPUs are idle, and returns true. Otherwise the job waits on. Jobs
  // start first in, first out, since large jobs would never start otherwise.
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

// Sum of |R0| (T(next) / T(R0) - 1) over the decided jobs, in GPUs. Algorithm 2 maximizes this.
double total_gain(const PlanningInput& input, const std::vector<Decision>& decisions);

}  // namespace espalier::bench
