// Summaries of simulation runs.
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
  double lost_gpu_hours = 0;  // GPU time held while nothing trained
  double gpu_hours = 0;       // GPU time held
  // Comparison with the reference run.
  // The reference's average JCT / this run's; above 1: this run is faster.
  double avg_jct_ratio = 0;
  // Where some jobs are not elastic (FlexTrain Fig. 11).
  std::size_t elastic_jobs = 0;
  double elastic_jct = 0;            // average JCT of elastic jobs, seconds; 0: there are none
  double elastic_jct_ratio = 0;      // the reference's / this run's, of the same jobs
  double others_queueing = 0;        // average time until the first start of the other jobs
  double others_queueing_ratio = 0;  // this run's / the reference's; 1 where both are 0
  double worst_slowdown = 0;         // the largest JCT here / JCT in the reference
  double worst_delay = 0;            // the largest delay of a job's end against the reference, seconds
  std::size_t deadlines = 0;         // jobs that have one
  double deadlines_kept = 0;         // share of them that end in time; 0: there are none
  double worst_rho = 0;              // JobOutcome::rho(), the largest
  double delayed_share = 0;          // share of jobs that end over a second later than in the reference
};

// `reference`: a run of the same workload (fifo).
Summary summarize(const PolicyRun& run, const PolicyRun& reference);

// Value at `share` in [0, 1] of the sorted values (nearest rank). 0 for an empty list.
double percentile(std::vector<double> values, double share);

// One value per job, in the order of ids. delays(): end in `run` - end in `reference`. slowdowns():
// JCT in `run` / JCT in `reference`.
std::vector<double> delays(const PolicyRun& run, const PolicyRun& reference);
std::vector<double> slowdowns(const PolicyRun& run, const PolicyRun& reference);

}  // namespace espalier::sim
