// How well one running configuration predicts others: the errors behind `espalier-bench accuracy`.
#pragma once

#include <cstdint>

#include "tests/bench/planner/cluster_fit.hpp"

namespace espalier::bench {

// A prediction of samples[target].
struct PredictionError {
  std::size_t target = 0;
  double relative = 0;  // predicted / measured - 1
};

// `draws` times: bandwidths fitted on `fit_rows` random samples, coefficients from each of these in turn (or from each
// of `calibrators`, unless there is none), tested on all other plans of the same model. Throws Error when there are too
// few samples.
std::vector<PredictionError> errors_of_draws(const std::vector<Sample>& samples, const std::vector<Sample>& calibrators,
                                             int fit_rows, int draws, std::uint64_t seed);

// With known bandwidths: coefficients from each calibrator in turn (or from each sample, if there is none), tested on
// all other plans of the same model.
std::vector<PredictionError> errors_on_cluster(const ClusterBandwidths& bandwidths, const std::vector<Sample>& samples,
                                               const std::vector<Sample>& calibrators);

// Of absolute values, in percent.
struct ErrorSummary {
  double mean_pct = 0, median_pct = 0, p90_pct = 0;
};
ErrorSummary summarize(const std::vector<PredictionError>& errors);

}  // namespace espalier::bench
