// Measures how well one running configuration predicts others, for `espalier-bench accuracy`.
#pragma once

#include <cstdint>

#include "tests/bench/planner/cluster_fit.hpp"

namespace espalier::bench {

// A prediction of samples[target].
struct PredictionError {
  std::size_t target = 0;
  double relative = 0;  // predicted / measured - 1
};

// Repeats `draws` times: fits bandwidths on `fit_rows` random samples and takes coefficients from
// each of these samples in turn. If `calibrators` is not empty, it takes the coefficients from each
// of them instead. Tests on all other plans of the same model. Throws Error when there are too few
// samples.
std::vector<PredictionError> errors_of_draws(const std::vector<Sample>& samples, const std::vector<Sample>& calibrators,
                                             int fit_rows, int draws, std::uint64_t seed);

// The same with known bandwidths. Takes coefficients from each of `calibrators` in turn, or from
// each sample if there are none. Tests on all other plans of the same model.
std::vector<PredictionError> errors_on_cluster(const ClusterBandwidths& bandwidths, const std::vector<Sample>& samples,
                                               const std::vector<Sample>& calibrators);

// Summary of absolute errors, in percent.
struct ErrorSummary {
  double mean_pct = 0, median_pct = 0, p90_pct = 0;
};
ErrorSummary summarize(const std::vector<PredictionError>& errors);

}  // namespace espalier::bench
