#include "planner/core/model/layer_times.hpp"

#include <algorithm>
#include <map>

namespace espalier {
namespace {

constexpr double kMostFixed = 0.9;  // of the shortest time: a layer without any time for its samples is none
// A user's figures may say any times as much as a layer takes. No such figure may overflow in a plan's time.
constexpr double kMostLayers = 1e6;

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

// nullopt: no degree was measured with several numbers of samples.
std::optional<double> fixed_ms(const std::map<int, Degree>& degrees) {
  double sum = 0, shortest = degrees.begin()->second.front().ms;
  int count = 0;
  for (const auto& [tp, times] : degrees) {
    for (const LayerTime& one : times) shortest = std::min(shortest, one.ms);
    if (const std::optional<double> fixed = at_no_samples(times)) sum += *fixed, ++count;
  }
  if (count == 0) return std::nullopt;
  return std::clamp(sum / count, 0.0, kMostFixed * shortest);
}

// The slope of the line of least squares that meets no samples at `fixed`. Many samples tell it better than few, whose
// times the fixed part makes up.
double ms_per_sample(const Degree& times, double fixed) {
  double squares = 0, products = 0;
  for (const LayerTime& one : times) {
    squares += static_cast<double>(one.samples) * one.samples;
    products += one.samples * (one.ms - fixed);
  }
  return products / squares;
}

// Leaves the times with numbers of samples that `own` has, too.
Degree with_samples_of(Degree times, const Degree& own) {
  std::erase_if(times, [&](const LayerTime& one) {
    return std::none_of(own.begin(), own.end(), [&](const LayerTime& told) { return told.samples == one.samples; });
  });
  return times;
}

}  // namespace

std::optional<LayerFit> fit_layer_times(const std::vector<LayerTime>& times, int told) {
  std::map<int, Degree> degrees;
  for (const LayerTime& one : times) degrees[one.tp].push_back(one);
  const auto own = degrees.find(told);
  if (own == degrees.end()) return std::nullopt;
  const std::optional<double> seen = fixed_ms(degrees);
  const double fixed = seen.value_or(0), comp = told * ms_per_sample(own->second, fixed);
  LayerFit fit;
  fit.fixed_samples = fixed / comp;
  for (const auto& [tp, of_degree] : degrees) {
    // Without a fixed part to tell apart, times compare only with those of as many samples.
    const Degree like = seen ? of_degree : with_samples_of(of_degree, own->second);
    if (!like.empty()) fit.degree_factors.push_back({tp, tp == told ? 1 : tp * ms_per_sample(like, fixed) / comp});
  }
  return fit;
}

std::optional<EdgeLayers> edge_layers(const std::vector<LayerTime>& times, const std::optional<EdgeTimes>& edges) {
  if (!edges) return std::nullopt;
  const auto like = std::find_if(times.begin(), times.end(), [&](const LayerTime& one) {
    return one.tp == edges->tp && one.samples == edges->samples;
  });
  if (like == times.end()) return std::nullopt;
  return EdgeLayers{std::min(edges->first_ms / like->ms, kMostLayers),
                    std::min(edges->last_ms / like->ms, kMostLayers)};
}

}  // namespace espalier
