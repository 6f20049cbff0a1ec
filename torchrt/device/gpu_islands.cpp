#include "torchrt/device/gpu_islands.hpp"

#include <algorithm>

namespace espalier::torchrt {

std::vector<int> islands(int gpus, const std::function<bool(int, int)>& reach) {
  std::vector<std::vector<int>> found;
  std::vector<int> numbers;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const auto fits = [&](const std::vector<int>& island) {
      return std::all_of(island.begin(), island.end(),
                         [&](int other) { return reach(gpu, other) && reach(other, gpu); });
    };
    const auto at = std::find_if(found.begin(), found.end(), fits);
    numbers.push_back(static_cast<int>(at - found.begin()));
    if (at == found.end()) found.push_back({gpu});
    else at->push_back(gpu);
  }
  return found.size() < 2 ? std::vector<int>() : numbers;
}

}  // namespace espalier::torchrt
