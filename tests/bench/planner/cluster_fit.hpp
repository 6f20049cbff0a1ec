// Fits a cluster's bandwidths to measured plans, and predicts one plan from another one.
#pragma once

#include <vector>

#include "tests/bench/planner/cluster.hpp"
#include "tests/bench/planner/measurements.hpp"

namespace espalier::bench {

struct Sample {
  Measurement measured;
  PlacedPlan plan;
  JobCoefficients sizes;
};
std::vector<Sample> samples_of(const std::vector<Measurement>& rows);

// ms of `target` with the coefficients that `calibrating`, a row of the same model, gives.
double predict(const Hardware& hardware, const JobCoefficients& job, const Sample& target);
JobCoefficients calibrate_on(const Hardware& hardware, const Sample& calibrating);

// Bandwidths that make every sample of `from` predict all other plans of its model in `to` with the least mean relative
// error. Deterministic.
ClusterBandwidths fit_cluster(const std::vector<const Sample*>& from, const std::vector<const Sample*>& to);
std::vector<const Sample*> pointers(const std::vector<Sample>& samples);

}  // namespace espalier::bench
