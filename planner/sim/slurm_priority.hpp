// The order of Slurm's queue: priority/multifactor with the factors age and job size.
//
// Sources: slurm.conf(5) of Slurm 22.05 (Priority*, bf_*), https://slurm.schedmd.com/priority_multifactor.html
// (the formula, and a configuration as an example).
#pragma once

#include <map>
#include <string>

#include "planner/sim/live_job.hpp"

namespace espalier::sim {

// Slurm's own weights are 0: without a site's choice its queue is first in, first out. The weights and the age here are
// those of the documentation's example, which sites use as it stands.
struct SlurmQueueOptions {
  double weight_age = 1000;               // PriorityWeightAge
  double weight_job_size = 1000;          // PriorityWeightJobSize
  double max_age_seconds = 14 * 86400;    // PriorityMaxAge: the age from which the age factor is 1
  bool favor_small = false;               // PriorityFavorSmall
  double backfill_interval_seconds = 30;  // bf_interval: least time between two passes of the backfill scheduler
  int most_backfill_jobs = 500;           // bf_max_job_test: jobs that one pass looks at
  bool operator==(const SlurmQueueOptions&) const = default;
};

class SlurmPriority {
 public:
  // `cluster` is only looked at here.
  SlurmPriority(const ClusterView& cluster, const SlurmQueueOptions& options);
  // The integer that Slurm computes, not below 0. Age counts from the submission. The job size factor is the mean of
  // the job's share of the cluster's nodes and of its share of the GPUs, which stand for Slurm's CPUs.
  double of(const SimulatedJobState& job, double now) const;

 private:
  int node_gpus(const SimulatedJobState& job) const;

  SlurmQueueOptions options_;
  double nodes_ = 0, gpus_ = 0;
  std::map<std::string, int> largest_node_;  // by GPU type
};

}  // namespace espalier::sim
