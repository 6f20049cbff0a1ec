#include "tests/bench/planner/cluster_fit.hpp"

#include <array>
#include <cmath>
#include <nlopt.hpp>

#include "tests/bench/planner/measured_plan.hpp"

namespace espalier::bench {
namespace {

// The search runs over logarithms of ratios to the defaults, the upper saturation relative to the lower.
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

double mean_error(const std::vector<const Sample*>& samples, const ClusterBandwidths& bandwidths) {
  const Hardware hardware = hardware_of(bandwidths);
  double sum = 0;
  int count = 0;
  for (const Sample* one : samples) {
    const JobCoefficients job = calibrate_on(hardware, *one);
    for (const Sample* other : samples) {
      if (other == one || other->measured.model != one->measured.model) continue;
      sum += std::abs(predict(hardware, job, *other) / other->measured.times.iteration - 1);
      ++count;
    }
  }
  return count > 0 ? sum / count : 0;
}

}  // namespace

std::vector<Sample> samples_of(const std::vector<Measurement>& rows) {
  std::vector<Sample> samples;
  for (const Measurement& row : rows) samples.push_back({row, place(row), model_sizes(row.shape, {}, 1)});
  return samples;
}

JobCoefficients calibrate_on(const Hardware& hardware, const Sample& calibrating) {
  return calibrate_iteration(hardware, calibrating.sizes, calibrating.plan, calibrating.measured.times);
}

double predict(const Hardware& hardware, const JobCoefficients& job, const Sample& target) {
  return exact_iteration(stage_times(hardware, job, target.plan), target.plan.micro_batches);
}

ClusterBandwidths fit_cluster(const std::vector<const Sample*>& samples) {
  // Rows that say nothing of a bandwidth leave it where it was: a weak pull towards the start.
  constexpr double kPull = 1e-3;
  const auto loss = [&](const std::vector<double>& x) {
    double pull = 0;
    for (const double value : x) pull += value * value;
    return mean_error(samples, bandwidths_at(x)) + kPull * pull;
  };
  const nlopt::vfunc call = [](const std::vector<double>& x, std::vector<double>&, void* function) {
    return (*static_cast<const decltype(loss)*>(function))(x);
  };
  nlopt::opt search(nlopt::LN_SBPLX, 5);
  search.set_min_objective(call, const_cast<void*>(static_cast<const void*>(&loss)));
  search.set_lower_bounds(std::vector<double>{-3, -3, -2.5, -3, -3});
  search.set_upper_bounds(3.0);
  search.set_initial_step(0.3);
  search.set_xtol_rel(1e-4);
  search.set_ftol_abs(1e-6);
  search.set_maxeval(600);
  std::vector<double> x(5, 0.0);
  double least = 0;
  search.optimize(x, least);
  return bandwidths_at(x);
}

}  // namespace espalier::bench
