#include "launcher/world/gpu_reach.hpp"

#include <algorithm>

namespace espalier::launcher {

void GpuReach::heard(const ServerId& server, const std::vector<int>& islands) {
  if (islands.empty()) islands_.erase(islands_key(server));  // all reach each other, whatever was said before
  else islands_[islands_key(server)] = islands;
}

const wire::GpuIslands& GpuReach::of(const std::vector<Holding>& holdings) {
  std::erase_if(islands_, [&](const auto& known) {
    return std::none_of(holdings.begin(), holdings.end(), [&](const Holding& holding) {
      return islands_key({holding.node, holding.job}) == known.first;
    });
  });
  return islands_;
}

}  // namespace espalier::launcher
