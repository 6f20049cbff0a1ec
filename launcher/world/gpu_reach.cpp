#include "launcher/world/gpu_reach.hpp"

#include <algorithm>

namespace espalier::launcher {

const wire::GpuIslands& GpuReach::of(const std::vector<Holding>& holdings) {
  std::erase_if(islands_, [&](const auto& known) {
    return std::none_of(holdings.begin(), holdings.end(), [&](const Holding& holding) {
      return islands_key({holding.node, holding.job}) == known.first;
    });
  });
  return islands_;
}

}  // namespace espalier::launcher
