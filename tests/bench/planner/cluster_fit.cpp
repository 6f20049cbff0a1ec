#include "tests/bench/planner/cluster_fit.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlopt.hpp>

#include "planner/core/model/evaluate_plan.hpp"
#include "tests/bench/planner/measured_plan.hpp"

namespace espalier::bench {
namespace {

// The search uses logarithms of ratios to the defaults. The upper saturation is relative to the
// lower one.
ClusterBandwidths bandwidths_at(const std::vector<double>& x) {
  const ClusterBandwidths start;
  ClusterBandwidths result;
  result.tp = start.tp * std::exp(x[0]);
  result.saturation_low = start.saturation_low * std::exp(x[1]);
  result.saturation_high = result.saturation_low * (start.saturation_high / start.saturation_low) * std::exp(x[2]);
  result.dp = start.dp * std::exp(x[3]);
  result.nic = start.nic * std::exp(x[4]);
  return result;
}

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

using Loss = std::function<double(const std::vector<double>&)>;

// Finds a local minimum near `x`. A search that stops starts again from there with larger and
// smaller steps, until that brings nothing.
std::pair<std::vector<double>, double> descend(const Loss& loss, std::vector<double> x) {
  const nlopt::vfunc call = [](const std::vector<double>& at, std::vector<double>&, void* function) {
    return (*static_cast<const Loss*>(function))(at);
  };
  double least = loss(x), before = least;
  do {
    before = least;
    for (const double step : {0.3, 1.0, 0.1}) {
      nlopt::opt search(nlopt::LN_SBPLX, static_cast<unsigned>(x.size()));
      search.set_min_objective(call, const_cast<Loss*>(&loss));
      search.set_lower_bounds(std::vector<double>{-3, -3, -2.5, -3, -3});
      search.set_upper_bounds(3.0);
      search.set_initial_step(step);
      search.set_xtol_rel(1e-4);
      search.set_ftol_abs(1e-6);
      search.set_maxeval(400);
      std::vector<double> found = x;
      double value = 0;
      search.optimize(found, value);
      if (value < least) least = value, x = found;
    }
  } while (least < before * (1 - 1e-2));
  return {x, least};
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
  // A weak pull towards the start. It keeps a bandwidth at its start when no row depends on it.
  constexpr double kPull = 1e-3;
  const Loss loss = [&](const std::vector<double>& x) {
    double pull = 0;
    for (const double value : x) pull += value * value;
    return mean_error(from, to, bandwidths_at(x)) + kPull * pull;
  };
  // The error has kinks and valleys. So one search starts at the default bandwidths and one at half
  // of them.
  std::vector<double> best;
  double least = std::numeric_limits<double>::infinity();
  for (const double start : {0.0, std::log(0.5)}) {
    const auto [x, value] = descend(loss, std::vector<double>(5, start));
    if (value < least) least = value, best = x;
  }
  ClusterBandwidths result = bandwidths_at(best);
  result.flops = median_flops(from, result);
  return result;
}

}  // namespace espalier::bench
