// What units alone on a device tell of a model's computation: how much of a layer's TP does not divide, how much does
// not depend on the samples, and what the model's ends take beside a layer. Suika's k_comp is proportional to samples /
// TP degree, and its ends take nothing (A.2). Pure.
#pragma once

#include <optional>
#include <vector>

#include "planner/core/model/coefficients.hpp"
#include "planner/core/model/profile.hpp"

namespace espalier {

struct LayerFit {
  std::vector<DegreeFactor> degree_factors;  // of each degree that was measured, ascending
  double fixed_samples = 0;                  // JobCoefficients::fixed_samples
};

// Fits: a layer takes k_comp * (samples * factor / tp + fixed_samples), with the factor 1 at degree `told`. All degrees
// share fixed_samples. A line through each degree's times meets 0 samples somewhere: it is the mean of these, at most
// nine tenths of the shortest time. It is 0 where no degree was measured with several numbers of samples. Then a degree
// that was measured with other numbers of samples than `told` gets no factor. nullopt: `told` was not measured.
std::optional<LayerFit> fit_layer_times(const std::vector<LayerTime>& times, int told);

struct EdgeLayers {
  double first = 0, last = 0;  // EdgeCoefficients::compute_layers
};

// What the model's ends take beside a layer. nullopt: they were not measured, or no layer like them was.
std::optional<EdgeLayers> edge_layers(const std::vector<LayerTime>& times, const std::optional<EdgeTimes>& edges);

}  // namespace espalier
