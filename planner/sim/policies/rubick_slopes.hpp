// The heart of Rubick (MLSys '25): GPUs go where the slope of a job's resource sensitivity curve is highest, and are
// taken from where it is lowest.
#pragma once

#include <span>
#include <vector>

namespace espalier::sim {

struct CurvePoint {
  int gpus = 0;
  double throughput = 0;
};

// By ascending GPUs; points that are less than `least_gain` times as fast as the last one kept are dropped.
std::vector<CurvePoint> useful_points(std::vector<CurvePoint> points, double least_gain = 1.01);

struct RubickJob {
  std::vector<CurvePoint> curve;  // useful points
  double initial = 0;             // throughput of the plan that it was submitted with
  int minimum = 0;                // GPUs that it is guaranteed (minimum_demand)
  int gpus = 0;                   // a point of its curve that it runs on; 0: it waits
  bool settled = false;           // keeps its GPUs: a reconfiguration now would cost too much
  bool fixed = false;             // keeps its GPUs whatever happens: it is being reconfigured
  double waited = 0;              // seconds
};

struct RubickOptions {
  double least_worth = 0.97;  // k_reconfig: (T - N * cost) / T below it: the job is settled
  double patience = 200;      // k_queue, seconds: who has waited longer takes also from steeper and from settled jobs
};

// The fewest GPUs on which the job's best plan is at least as fast as the one it was submitted with (its performance
// guarantee); 0: none.
int minimum_demand(std::span<const CurvePoint> curve, double initial);

// Whether N reconfigurations of `cost` seconds in T seconds of training forbid another one.
bool is_settled(double trained_seconds, int reconfigurations, double cost, const RubickOptions& options);

// |T(from) - T(to)| / T(initial) per GPU.
double slope(const RubickJob& job, const CurvePoint& from, const CurvePoint& to);

// GPUs of every job, 0: waits. `jobs` in the order of the queue, `gpus`: all, those of running jobs included.
// Waiting jobs first: each takes its minimum from idle GPUs, then from the running job whose slope downwards is lowest,
// as long as it is below the waiting job's own, never below that job's minimum; who cannot get enough takes nothing.
// What is idle then goes to the highest slope upwards, over all points of the curves that fit.
std::vector<int> rubick_shares(std::span<const RubickJob> jobs, int gpus, const RubickOptions& options);

}  // namespace espalier::sim
