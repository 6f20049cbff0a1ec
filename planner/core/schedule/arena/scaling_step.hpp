// One step of Arena's iterative scaling (§3.5, Algorithm 1, InFlightHandler): the running job that gains most from
// twice as many GPUs, or from as many of another type. Pure; the simulator's policy and the planner's share it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier {

// Samples per second on so many GPUs of a pool; 0 or less: impossible.
using ThroughputOf = std::function<double(int pool, int gpus)>;

// A job as scaling sees it.
struct ScalingJob {
  ThroughputOf throughput;
  int pool = -1, gpus = 0;  // that it has
  int most_gpus = 0;        // that it may have
  double weight = 1;        // factor on its gains when jobs are compared
  bool doubles = true, switches = true;
};

struct ScalingStep {
  std::size_t job = 0;  // index
  int pool = 0, gpus = 0;
  double gain = 0;  // samples per second, times the weight
};

// The next count of the buddy rule: a power of two, from a count that need not be one.
int doubled(int gpus);
// The largest count of the buddy rule that is at most `gpus`. A job's basic demand is one, too.
int buddy_count(int gpus, int basic);

// The step with the largest gain; on ties the first by pool of the job, by job, and a switch before a doubling.
// `free`: idle GPUs by pool. A job on pool -1 is left alone. `refused`: steps that cannot be; empty: none. Where a
// doubling is refused, the next power of two is looked at. nullopt: nothing gains.
std::optional<ScalingStep> best_step(std::span<const ScalingJob> jobs, std::span<const int> free,
                                     const std::function<bool(const ScalingStep&)>& refused = {});

}  // namespace espalier
