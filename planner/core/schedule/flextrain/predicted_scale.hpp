// FlexTrain's performance predictor (§4.4): what a job would reach on other numbers of GPUs, by formula and by what was
// measured of it, and which of these configurations are good enough to scale to. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/schedule/flextrain/options.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// By formula (eqs. 1-6), in passes of one division (forward and backward, for one micro-batch): p stages, d replicas, v
// chunks of each stage, and micro-batches of a step per pipeline. `longest_stage`: the most divisions that a stage has.
// The printed form takes v = ceil(L/p) chunks of one division; with fewer chunks each holds more of them. No
// communication.
double modelled_passes(double longest_stage, int stages, int chunks, int micro_batches);

struct ScaleEntry {
  int gpus = 0;
  std::string plan;      // describe(); empty: there is none
  std::string schedule;  // by name
  int chunks = 1;        // of each stage
  double step_seconds = 0;
  double profiled = 0, modelled = 0;       // speedup over the first entry
  double peak_bytes = 0, limit_bytes = 0;  // of the GPU that is fullest
  std::string dropped;                     // one sentence; empty: the job may scale to it
};

struct ScaleOptions {
  Elasticity elasticity = Elasticity::pipeline_and_data;
  double least_gain = 1.02;        // over the last entry that was kept
  double most_discrepancy = 0.25;  // between the two speedups, as a share of the smaller
  int most_entries = 32;
};

// §4.4.4: traverses the entries in ascending order of GPUs. An entry is dropped when the two predictions go different
// ways from their respective previous results, when they differ too much, or when it gains too little over the last
// entry that was kept. The first is kept.
void filter_entries(std::vector<ScaleEntry>& entries, const ScaleOptions& options);

// One entry for each number of GPUs from the present plan's to the job's most, all of them up to `most_entries`
// numbers, in units of what the elasticity allows. GPUs beyond the job's own are the cluster's nearest ones, whoever
// uses them now. `job` must have a plan; throws Error when it does not suit the site.
std::vector<ScaleEntry> predicted_scale(const ElasticJob& job, const Site& site, const JobCoefficients& coefficients,
                                        const ScaleOptions& options);

}  // namespace espalier
