#include "planner/core/solver/layer_balance.hpp"

#include <algorithm>
#include <limits>

namespace espalier {

double continuous_bottleneck(std::span<const LayerBin> bins, int total) {
  double speed = 0, offset = 0;
  for (const LayerBin& bin : bins) {
    speed += bin.inverse;
    offset += bin.fixed * bin.inverse;
  }
  return (total + offset) / speed;
}

bool balance_layers(std::span<const LayerBin> bins, int total, std::span<int> layers) {
  long room = 0;
  for (const LayerBin& bin : bins) {
    if (bin.cap < 1) return false;
    room += bin.cap;
  }
  if (room < total || static_cast<int>(bins.size()) > total) return false;
  // The continuous solution is rounded down. The rest is greedy, which is optimal for costs that
  // rise with every item.
  const double bottleneck = continuous_bottleneck(bins, total);
  int sum = 0;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    const double share = (bottleneck - bins[i].fixed) * bins[i].inverse;
    layers[i] = static_cast<int>(std::clamp(share + 1e-9, 1.0, static_cast<double>(bins[i].cap)));
    sum += layers[i];
  }
  for (; sum < total; ++sum) {
    std::size_t lightest = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < bins.size(); ++i) {
      const double next = bins[i].fixed + (layers[i] + 1) * bins[i].cost;
      if (layers[i] < bins[i].cap && next < least) least = next, lightest = i;
    }
    ++layers[lightest];
  }
  for (; sum > total; --sum) {
    std::size_t heaviest = 0;
    double most = -1;
    for (std::size_t i = 0; i < bins.size(); ++i) {
      const double now = bins[i].fixed + layers[i] * bins[i].cost;
      if (layers[i] > 1 && now >= most) most = now, heaviest = i;
    }
    --layers[heaviest];
  }
  return true;
}

}  // namespace espalier
