// What a training has used: how long its GPUs trained, and how long they stood in pauses. The allocations themselves
// are Slurm's to count (Store::Allocation).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "planner/core/job.hpp"
#include "planner/daemon/slurm.hpp"

namespace espalier {

class Store;

// GPU seconds of one elastic job. Times are seconds since the epoch.
struct TrainingUsage {
  double trained = 0;   // the plan's GPUs while a generation ran them, without pauses
  double paused = 0;    // hand-offs, and recoveries from losses
  double until = 0;     // counted so far; 0: nothing was counted yet
  int gpus = 0;         // of the plan that runs since `until`; 0: none runs
  bool stands = false;  // since `until` the job recovers from a loss: its GPUs stand

  // Counts the time since `until`, and goes on with `job` as it is now.
  void report(const ElasticJob& job, double now);
  // A hand-off of the plan that runs has paused training for so long.
  void pause(double seconds, double now);
  void end(double now);
  // The job has waited in Slurm's queue since `until`, without GPUs, and has been started again at `started`.
  void restart(double started);

 private:
  void count(double now);
};

// Writes down what Slurm says of the allocations of elastic jobs: anchors, bases and extensions.
class Allocations {
 public:
  // `partition`: of extensions; empty: any. Anybody may write the comment of an extension.
  explicit Allocations(Store& store, std::string partition = "") : store_(store), partition_(std::move(partition)) {}
  // `elastic`: the ids of jobs with a launcher.
  void look(const SlurmSnapshot& slurm, const std::set<JobId>& elastic);

 private:
  struct Written {
    JobId anchor = 0;
    uid_t uid = 0;
    int gpus = 0;
    double started = 0, ended = 0;
    bool base = false;
    bool operator==(const Written&) const = default;
  };
  Store& store_;
  const std::string partition_;
  bool read_ = false;
  std::map<JobId, Written> written_;  // of jobs that Slurm still knows
};

}  // namespace espalier
