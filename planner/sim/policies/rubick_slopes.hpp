// The core of Rubick (MLSys '25): GPUs go where the slope of a job's resource sensitivity curve is
// highest, and are taken where it is lowest.
#pragma once

#include <span>
#include <vector>

namespace espalier::sim {

struct CurvePoint {
  int gpus = 0;
  double throughput = 0;
};

// Sorts points by ascending GPUs. Drops a point that is less than `least_gain` times as fast as the
// last one kept.
std::vector<CurvePoint> useful_points(std::vector<CurvePoint> points, double least_gain = 1.01);

struct RubickJob {
  std::vector<CurvePoint> curve;  // useful points
  double initial = 0;             // throughput of the submitted plan
  int minimum = 0;                // GPUs that it is guaranteed (minimum_demand)
  int gpus = 0;                   // the point of its curve that it runs on; 0: it waits
  // Keeps its GPUs, because a reconfiguration would cost too much now.
  bool settled = false;
  bool fixed = false;  // always keeps its GPUs, because it is being reconfigured
  double waited = 0;   // seconds
};

struct RubickOptions {
  double least_worth = 0.97;  // k_reconfig: a job with (T - N * cost) / T below this is settled
  // k_queue, in seconds. A job that has waited longer also takes GPUs from steeper and from settled
  // jobs.
  double patience = 200;
};

// The fewest GPUs on which the job's best plan is at least as fast as its submitted plan (its
// performance guarantee). 0: there is no such number.
int minimum_demand(std::span<const CurvePoint> curve, double initial);

// Whether N reconfigurations of `cost` seconds in T seconds of training forbid another one.
bool is_settled(double trained_seconds, int reconfigurations, double cost, const RubickOptions& options);

// |T(from) - T(to)| / T(initial) per GPU.
double slope(const RubickJob& job, const CurvePoint& from, const CurvePoint& to);

// The GPUs of every job; 0: it waits. `jobs` are in the order of the queue. `gpus`: all GPUs,
// including those of running jobs. Waiting jobs come first. Each takes its minimum from idle GPUs,
// then from the running job with the lowest slope downwards. That slope must be below the waiting
// job's own slope, and the running job keeps its minimum. A job that cannot get enough takes
// nothing. Idle GPUs then go to the highest slope upwards, over all points of the curves that fit.
std::vector<int> rubick_shares(std::span<const RubickJob> jobs, int gpus, const RubickOptions& options);

}  // namespace espalier::sim
