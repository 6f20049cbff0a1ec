// Fits a cluster's bandwidths to measured plans, and predicts one plan from another one.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/bench/planner/cluster.hpp"
#include "tests/bench/planner/measurements.hpp"

namespace espalier::bench {

struct Sample {
  Measurement measured;
  PlacedPlan plan;
  JobCoefficients sizes;
  bool may_recompute = false;  // the model's measured plans do not all fit without
};

// Measurements do not say whether a model recomputed its activations. It did not where all its plans fit into GPUs of
// `gpu_bytes` without (FP32, Adam, activations by the formulas of model_sizes.hpp); otherwise it may have.
std::set<std::string> models_that_may_recompute(const std::vector<Measurement>& rows, double gpu_bytes);

std::vector<Sample> samples_of(const std::vector<Measurement>& rows, const std::set<std::string>& may_recompute = {});

// ms of `target` with the coefficients that `calibrating`, a row of the same model, gives.
double predict(const Hardware& hardware, const JobCoefficients& job, const Sample& target);
// Where the model may recompute, it does if that brings the computation nearer to `flops`, the FLOP/ms that others
// reach on the cluster; 0: unknown, and it does.
JobCoefficients calibrate_on(const Hardware& hardware, double flops, const Sample& calibrating);

// Bandwidths that make every sample of `from` predict all other plans of its model in `to` with the least mean relative
// error, and the FLOP/ms of those that do not recompute. Deterministic.
ClusterBandwidths fit_cluster(const std::vector<const Sample*>& from, const std::vector<const Sample*>& to);
std::vector<const Sample*> pointers(const std::vector<Sample>& samples);

}  // namespace espalier::bench
