// Load-Balance of layers (Suika App. B): splits L layers over stages such that the slowest stage is
// as fast as possible.
#pragma once

#include <span>

namespace espalier {

// One stage: a micro-batch costs `fixed + layers * cost` ms; it holds 1..cap layers.
struct LayerBin {
  double cost = 0, fixed = 0;
  int cap = 0;
  double inverse = 0;  // 1 / cost
};

// Minimizes max_i (fixed_i + layers_i * cost_i) over integers with sum `total`. Optimal; O(stages^2). False when the
// caps leave no room or there are more stages than layers. At equal cost the earlier stage gets the layer.
bool balance_layers(std::span<const LayerBin> bins, int total, std::span<int> layers);

// The same without integers and caps. The result is a lower bound of that maximum.
double continuous_bottleneck(std::span<const LayerBin> bins, int total);

}  // namespace espalier
