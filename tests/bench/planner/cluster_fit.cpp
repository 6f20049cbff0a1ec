#include "tests/bench/planner/cluster_fit.hpp"

#include <algorithm>
#include <cmath>

#include "planner/core/model/evaluate_plan.hpp"
#include "tests/bench/planner/measured_plan.hpp"

namespace espalier::bench {
namespace {

// FLOP/ms of a forward pass.
double flops_of(const Sample& sample, const JobCoefficients& job) {
  return layer_flops(sample.measured.shape) / job.gpu[0].comp;
}

double median_flops(const std::vector<const Sample*>& samples, const ClusterBandwidths& bandwidths) {
  std::vector<double> flops;
  for (const Sample* one : samples)
    if (!one->may_recompute) flops.push_back(flops_of(*one, calibrate_on(hardware_of(bandwidths), 0, *one)));
  if (flops.empty()) return 0;
  const auto middle = flops.begin() + static_cast<std::ptrdiff_t>(flops.size() / 2);
  std::nth_element(flops.begin(), middle, flops.end());
  return *middle;
}

double mean_error(const std::vector<const Sample*>& from, const std::vector<const Sample*>& to,
                  const ClusterBandwidths& bandwidths) {
  const Hardware hardware = hardware_of(bandwidths);
  double sum = 0;
  int count = 0;
  for (const Sample* one : from) {
    const JobCoefficients job = calibrate_on(hardware, 0, *one);
    for (const Sample* other : to) {
      if (!other->measured.same_model(one->measured) || other->measured.same_plan(one->measured)) continue;
      sum += std::abs(predict(hardware, job, *other) / other->measured.times.iteration - 1);
      ++count;
    }
  }
  return count > 0 ? sum / count : 0;
}

}  // namespace

std::set<std::string> models_that_may_recompute(const std::vector<Measurement>& rows, double gpu_bytes) {
  Hardware hardware = hardware_of({});
  hardware.types[0].memory_bytes = gpu_bytes;
  std::set<std::string> models;
  for (const Measurement& row : rows)
    for (const StagePrediction& stage : evaluate_plan(hardware, model_sizes(row.shape, {}, 1), place(row)).stages)
      if (stage.memory.peak > stage.capacity) models.insert(row.model);
  return models;
}

std::vector<Sample> samples_of(const std::vector<Measurement>& rows, const std::set<std::string>& may_recompute) {
  std::vector<Sample> samples;
  for (const Measurement& row : rows)
    samples.push_back({row, place(row), model_sizes(row.shape, {}, 1), may_recompute.count(row.model) > 0});
  return samples;
}

std::vector<const Sample*> pointers(const std::vector<Sample>& samples) {
  std::vector<const Sample*> result;
  for (const Sample& sample : samples) result.push_back(&sample);
  return result;
}

JobCoefficients calibrate_on(const Hardware& hardware, double flops, const Sample& calibrating) {
  const auto calibrate_with = [&](bool recompute) {
    JobCoefficients sizes = calibrating.sizes;
    sizes.recompute = recompute;
    return calibrate_iteration(hardware, std::move(sizes), calibrating.plan, calibrating.measured.times);
  };
  JobCoefficients plain = calibrate_with(false);
  if (!calibrating.may_recompute) return plain;
  JobCoefficients recomputing = calibrate_with(true);
  const auto distance = [&](const JobCoefficients& job) {
    return std::abs(std::log(flops_of(calibrating, job) / flops));
  };
  return flops > 0 && distance(plain) < distance(recomputing) ? plain : recomputing;
}

double predict(const Hardware& hardware, const JobCoefficients& job, const Sample& target) {
  return exact_iteration(stage_times(hardware, job, target.plan), target.plan.micro_batches);
}

ClusterBandwidths fit_cluster(const std::vector<const Sample*>& from, const std::vector<const Sample*>& to) {
  ClusterBandwidths result =
      fit_bandwidths({}, [&](const ClusterBandwidths& bandwidths) { return mean_error(from, to, bandwidths); });
  result.flops = median_flops(from, result);
  return result;
}

}  // namespace espalier::bench
