// Fits a cluster's bandwidths to measured plans and predicts one plan from another.
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
  bool may_recompute = false;  // some measured plan of the model does not fit without recomputation
};

// Measurements do not say whether a model recomputed its activations. A model did not if all its
// plans fit into GPUs of `gpu_bytes` without recomputation (FP32, Adam, activations by the formulas
// of model_sizes.hpp). Otherwise it may have.
std::set<std::string> models_that_may_recompute(const std::vector<Measurement>& rows, double gpu_bytes);

std::vector<Sample> samples_of(const std::vector<Measurement>& rows, const std::set<std::string>& may_recompute = {});

// ms of `target` with coefficients from a row of the same model.
double predict(const Hardware& hardware, const JobCoefficients& job, const Sample& target);
// Coefficients from one row. If the model may recompute, recomputation is assumed when it brings
// the computation nearer to `flops`, the FLOP/ms that other models reach on the cluster. `flops` 0:
// unknown, and recomputation is assumed.
JobCoefficients calibrate_on(const Hardware& hardware, double flops, const Sample& calibrating);

// Finds the bandwidths with the least mean relative error when every sample of `from` predicts all
// other plans of its model in `to`. Also finds the FLOP/ms of models that do not recompute.
// Deterministic.
ClusterBandwidths fit_cluster(const std::vector<const Sample*>& from, const std::vector<const Sample*>& to);
std::vector<const Sample*> pointers(const std::vector<Sample>& samples);

}  // namespace espalier::bench
