#include "planner/sim/slurm_priority.hpp"

#include <algorithm>
#include <cmath>

#include "planner/sim/base_queue.hpp"

namespace espalier::sim {

SlurmPriority::SlurmPriority(const ClusterView& cluster, const SlurmQueueOptions& options) : options_(options) {
  for (const NodeView& node : cluster.nodes) {
    const int gpus = static_cast<int>(node.gpu_owner.size());
    int& largest = largest_node_[node.gpu_type];
    largest = std::max(largest, gpus);
    nodes_ += 1;
    gpus_ += gpus;
  }
}

// The largest node of the types on which the job may start.
int SlurmPriority::node_gpus(const SimulatedJobState& job) const {
  int most = 1;
  for (const BasicPlan* at : starts_of(job))
    if (const auto known = largest_node_.find(at->gpu_type); known != largest_node_.end())
      most = std::max(most, known->second);
  return most;
}

double SlurmPriority::of(const SimulatedJobState& job, double now) const {
  const double age = std::clamp((now - job.job->submit) / options_.max_age_seconds, 0.0, 1.0);
  const int each = node_gpus(job), gpus = job.kind->gpus();
  const double nodes = (gpus + each - 1) / each;
  const double large = std::min(1.0, (nodes / nodes_ + gpus / gpus_) / 2);
  const double size = options_.favor_small ? 1 - large : large;
  return std::floor(options_.weight_age * age + options_.weight_job_size * size);
}

}  // namespace espalier::sim
