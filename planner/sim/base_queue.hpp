// The base queue (Suika §3.2.3). It decides which waiting job starts next, and which waiting jobs
// the scheduler sees.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/sim/free_gpus.hpp"
#include "planner/sim/live_job.hpp"
#include "planner/sim/slurm_priority.hpp"

namespace espalier::sim {

class BaseQueue {
 public:
  // `priority`: for QueueOrder::slurm, which needs it.
  explicit BaseQueue(QueueOrder order, std::optional<SlurmPriority> priority = {})
      : order_(order), priority_(std::move(priority)) {}
  QueueOrder order() const { return order_; }
  bool backfills() const { return order_ == QueueOrder::backfill; }
  bool is_slurm() const { return order_ == QueueOrder::slurm; }
  // Puts the jobs into the order of that time. Only Slurm's order changes with time.
  void turn_to(double now);
  void add(const SimulatedJobState& job);
  void remove(JobId job);
  bool empty() const { return waiting_.empty(); }
  // In the order of service; never null.
  const std::vector<const SimulatedJobState*>& waiting() const { return waiting_; }

 private:
  double key(const SimulatedJobState& job) const;
  QueueOrder order_;
  std::optional<SlurmPriority> priority_;
  std::vector<const SimulatedJobState*> waiting_;
};

// The basic plans with which the job may start, the fastest first: one for each GPU type that it asks
// for and can run on.
std::vector<const BasicPlan*> starts_of(const SimulatedJobState& job);

// Takes GPUs of the first of these types that has room. nullopt: none has.
std::optional<std::vector<GpuId>> take_for(FreeGpus& free, const SimulatedJobState& job);

// When a job can start, and on which type of GPU.
struct ExpectedStart {
  double time = std::numeric_limits<double>::infinity();
  std::string gpu_type;  // empty: never
};

// The earliest time at which `job` can start if all extensions are gone, from the expected ends of
// the running jobs. `end_of(owner)`: the time at which the anchor of that id ends; infinity if it is
// unknown.
ExpectedStart expected_start(const ClusterView& cluster, const std::vector<JobId>& extensions,
                             const SimulatedJobState& job, const std::function<double(JobId)>& end_of);

// Seconds after its start at which Slurm would end the job: on the type on which it runs, or on the
// slowest on which it may start.
double time_limit(const SimulatedJobState& job);

// The seconds that its user asked for, under QueueOrder::slurm.
double asked_limit(const SimulatedJobState& job);

// A waiting job as the scheduler sees it. `place`: how many are before it. `gpu_type`: on which it would start.
WaitingJob shown(const SimulatedJobState& job, std::size_t place, const ClusterView& cluster,
                 const std::string& gpu_type);

// Whether `job` on `gpus` leaves the expected start of `head` as early as it is. `cluster` is the same
// after the call.
bool may_pass(ClusterView& cluster, const std::vector<JobId>& extensions, const SimulatedJobState& head,
              const SimulatedJobState& job, const std::vector<GpuId>& gpus, double now,
              const std::function<double(JobId)>& end_of);

// The waiting jobs that the scheduler sees, in order: the jobs that would start if all extensions
// were gone, and the first job that would not, with its expected start. Later jobs cannot start
// before that job, so they are not shown. With backfill the later jobs are shown that may start
// before it. `end_of`: with backfill by time limits.
std::vector<WaitingJob> shown_waiting(const BaseQueue& queue, const ClusterView& cluster,
                                      const std::vector<JobId>& extensions, double now,
                                      const std::function<double(JobId)>& end_of);

}  // namespace espalier::sim
