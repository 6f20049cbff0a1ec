// The scheduler: a function from a snapshot to decisions. The daemon and the simulator run the same object.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "planner/core/decision.hpp"

namespace espalier {

struct PlanningInput {
  double now = 0;  // seconds; passed in, the core has no clock
  Trigger trigger = Trigger::timer;
  ClusterView cluster;
  std::vector<ElasticJob> jobs;  // sorted by id
  std::map<JobId, double>
      last_change;  // when a job was last reconfigured, whether that succeeded or not; absent: never
};

struct SchedulerOptions {
  int max_lease_minutes = 60;
  int kill_wait_seconds = 30;    // Slurm's KillWait, for the lease's length
  double cooldown_seconds = 10;  // between two reconfigurations of one job that nobody waits for
};

// Deterministic: same inputs, same decisions. Not thread-safe; one owner.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual std::string name() const = 0;
  // At most one decision per job; jobs without a change are absent. Jobs whose phase is not `running` are left alone.
  virtual std::vector<Decision> decide(const PlanningInput& input) = 0;
};

// The first scheduler: nearest idle GPUs, one more pipeline stage (bitwise) or replica (relaxed) per GPU, uniform
// layers.
std::unique_ptr<Scheduler> make_nearest_scheduler(const SchedulerOptions& options);

// The best plan on a subset of the GPUs the job has now (its mirror of growing): used by the planner for a shrink and
// by the launcher when Slurm takes GPUs while the planner is away. nullopt: nothing valid fits.
std::optional<Plan> plan_on_subset(const ElasticJob& job, const std::vector<GpuId>& gpus);

}  // namespace espalier
