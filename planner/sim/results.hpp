// What a run was worth.
#pragma once

#include <string>
#include <vector>

#include "planner/sim/simulation.hpp"

namespace espalier::sim {

struct Summary {
  std::string policy;
  std::size_t jobs = 0;
  double avg_jct = 0, weighted_jct = 0;  // seconds; weight: GPUs of the basic plan (Suika §5.1)
  double p50_jct = 0, p99_jct = 0;
  double makespan = 0;                        // from the first submission to the last end
  double utilization = 0;                     // GPU time held / (GPUs of the cluster x makespan)
  double avg_queueing = 0, p99_queueing = 0;  // until the first start
  long redeployments = 0;
  double lost_gpu_hours = 0;  // held while nothing trained
  double gpu_hours = 0;       // held
  // Against the reference: JCT here / JCT there.
  double avg_jct_ratio = 0;   // reference's average / this one's: above 1 is faster
  double worst_slowdown = 0;  // the largest of any job
  double worst_delay = 0;     // the latest end after its end there, seconds
  double delayed_share = 0;   // of the jobs that end over a second later than there
};

// `reference`: of the same workload (fifo).
Summary summarize(const PolicyRun& run, const PolicyRun& reference);

// Value at `share` in [0, 1] of the sorted values (the nearest rank); 0 for none.
double percentile(std::vector<double> values, double share);

// Per job, in the order of ids: end here - end there; and JCT here / JCT there.
std::vector<double> delays(const PolicyRun& run, const PolicyRun& reference);
std::vector<double> slowdowns(const PolicyRun& run, const PolicyRun& reference);

}  // namespace espalier::sim
