#include "planner/core/model/bandwidth_fit.hpp"

#include <cmath>
#include <limits>
#include <nlopt.hpp>
#include <utility>
#include <vector>

namespace espalier {
namespace {

// The search uses logarithms of ratios to the start. The upper saturation is relative to the lower
// one.
ClusterBandwidths bandwidths_at(const ClusterBandwidths& start, const std::vector<double>& x) {
  ClusterBandwidths result;
  result.tp = start.tp * std::exp(x[0]);
  result.saturation_low = start.saturation_low * std::exp(x[1]);
  result.saturation_high = result.saturation_low * (start.saturation_high / start.saturation_low) * std::exp(x[2]);
  result.dp = start.dp * std::exp(x[3]);
  result.nic = start.nic * std::exp(x[4]);
  return result;
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

ClusterBandwidths fit_bandwidths(const ClusterBandwidths& start, const BandwidthLoss& measured) {
  // A weak pull towards the start. It keeps a bandwidth at its start when no row depends on it.
  constexpr double kPull = 1e-3;
  const Loss loss = [&](const std::vector<double>& x) {
    double pull = 0;
    for (const double value : x) pull += value * value;
    return measured(bandwidths_at(start, x)) + kPull * pull;
  };
  // The error has kinks and valleys. So one search starts at the start and one at half of it.
  std::vector<double> best;
  double least = std::numeric_limits<double>::infinity();
  for (const double from : {0.0, std::log(0.5)}) {
    const auto [x, value] = descend(loss, std::vector<double>(5, from));
    if (value < least) least = value, best = x;
  }
  return bandwidths_at(start, best);
}

}  // namespace espalier
