// The base queue (Suika §3.2.3): which waiting job starts next, and what the scheduler is shown of those that wait.
#pragma once

#include <map>
#include <vector>

#include "planner/sim/live_job.hpp"

namespace espalier::sim {

class BaseQueue {
 public:
  explicit BaseQueue(QueueOrder order) : order_(order) {}
  void add(const SimulatedJobState& job);
  void remove(JobId job);
  bool empty() const { return waiting_.empty(); }
  // In the order of service; never null.
  const std::vector<const SimulatedJobState*>& waiting() const { return waiting_; }

 private:
  double key(const SimulatedJobState& job) const;
  QueueOrder order_;
  std::vector<const SimulatedJobState*> waiting_;
};

// When a job of `gpus` GPUs can start at the earliest, with all extensions gone: by what the running jobs still have to
// do. `end_of(owner)`: when the anchor of that id ends; infinity where it is not known.
double expected_start(const ClusterView& cluster, const std::vector<JobId>& extensions, int gpus,
                      const std::function<double(JobId)>& end_of);

// The waiting jobs as the scheduler may count on them: in order, those that would start if all extensions went, and the
// first that would not, with its expected start. Those behind it cannot start before it: they are not there yet.
std::vector<WaitingJob> shown_waiting(const BaseQueue& queue, const ClusterView& cluster,
                                      const std::vector<JobId>& extensions, const std::function<double(JobId)>& end_of);

}  // namespace espalier::sim
