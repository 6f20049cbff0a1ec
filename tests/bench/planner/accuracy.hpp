// How well one running configuration predicts others: the errors behind `espalier-bench accuracy`.
#pragma once

#include <cstdint>

#include "tests/bench/planner/cluster_fit.hpp"

namespace espalier::bench {

// A prediction of samples[target] from the coefficients of calibrators[from].
struct PredictionError {
  std::size_t from = 0, target = 0;
  double relative = 0;  // predicted / measured - 1
};

// `draws` times: bandwidths fitted on `fit_rows` random samples, coefficients from each of these in turn, tested on all
// others of the same model. Throws Error when there are too few samples.
std::vector<PredictionError> errors_of_draws(const std::vector<Sample>& samples, int fit_rows, int draws,
                                             std::uint64_t seed);

// With known bandwidths: coefficients from each calibrator in turn, tested on all samples of the same model that are
// not the same plan.
std::vector<PredictionError> errors_on_cluster(const ClusterBandwidths& bandwidths,
                                               const std::vector<Sample>& calibrators,
                                               const std::vector<Sample>& samples);

// Of absolute values, in percent.
struct ErrorSummary {
  double mean_pct = 0, median_pct = 0, p90_pct = 0;
};
ErrorSummary summarize(const std::vector<PredictionError>& errors);

}  // namespace espalier::bench
