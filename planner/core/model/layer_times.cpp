#include "planner/core/model/layer_times.hpp"

#include <algorithm>
#include <map>

namespace espalier {
namespace {

constexpr double kMostFixed = 0.9;  // of the shortest time: a layer without any time for its samples is none

using Degree = std::vector<LayerTime>;  // times of one degree

// Where the line of least squares through the times meets no samples. nullopt: all have the same number of samples.
std::optional<double> at_no_samples(const Degree& times) {
  const auto count = static_cast<double>(times.size());
  double samples = 0, ms = 0;
  for (const LayerTime& one : times) samples += one.samples / count, ms += one.ms / count;
  double squares = 0, products = 0;
  for (const LayerTime& one : times) {
    squares += (one.samples - samples) * (one.samples - samples);
    products += (one.samples - samples) * (one.ms - ms);
  }
  if (!(squares > 0)) return std::nullopt;
  return ms - products / squares * samples;
}

double fixed_ms(const std::map<int, Degree>& degrees) {
  double sum = 0, shortest = degrees.begin()->second.front().ms;
  int count = 0;
  for (const auto& [tp, times] : degrees) {
    for (const LayerTime& one : times) shortest = std::min(shortest, one.ms);
    if (const std::optional<double> fixed = at_no_samples(times)) sum += *fixed, ++count;
  }
  return count == 0 ? 0 : std::clamp(sum / count, 0.0, kMostFixed * shortest);
}

double ms_per_sample(const Degree& times, double fixed) {
  double sum = 0;
  for (const LayerTime& one : times) sum += (one.ms - fixed) / one.samples;
  return sum / static_cast<double>(times.size());
}

}  // namespace

std::optional<LayerFit> fit_layer_times(const std::vector<LayerTime>& times, int told) {
  std::map<int, Degree> degrees;
  for (const LayerTime& one : times) degrees[one.tp].push_back(one);
  const auto own = degrees.find(told);
  if (own == degrees.end()) return std::nullopt;
  const double fixed = fixed_ms(degrees), comp = told * ms_per_sample(own->second, fixed);
  LayerFit fit;
  fit.fixed_samples = fixed / comp;
  for (const auto& [tp, of_degree] : degrees)
    fit.degree_factors.push_back({tp, tp == told ? 1 : tp * ms_per_sample(of_degree, fixed) / comp});
  return fit;
}

}  // namespace espalier
