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

wire::GpuIslands GpuReach::of_part(const std::vector<Holding>& holdings, const std::vector<Holding>& part) const {
  wire::GpuIslands result;
  for (const Holding& holding : holdings) {
    const std::string key = islands_key({holding.node, holding.job});
    const auto known = islands_.find(key);
    if (known == islands_.end() || known->second.size() != holding.gpus.size()) continue;
    std::vector<int> gpus = holding.gpus;
    std::sort(gpus.begin(), gpus.end());
    for (const Holding& left : part)
      for (std::size_t place = 0; left.node == holding.node && left.job == holding.job && place < gpus.size(); ++place)
        if (std::find(left.gpus.begin(), left.gpus.end(), gpus[place]) != left.gpus.end())
          result[key].push_back(known->second[place]);
  }
  return result;
}

}  // namespace espalier::launcher
