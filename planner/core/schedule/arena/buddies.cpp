#include "planner/core/schedule/arena/buddies.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace espalier {

std::vector<NodeGpus> pick_buddies(std::span<const NodeGpus> idle, std::span<const GpuAt> nearest,
                                   std::span<const NodeGpus> held, int count) {
  std::map<std::int32_t, int> place;  // in the order of nearness
  for (const GpuAt& gpu : nearest) place.try_emplace(gpu.node, static_cast<int>(place.size()));
  std::vector<const NodeGpus*> nodes;
  int sum = 0;
  for (const NodeGpus& one : idle) {
    if (one.gpus.empty() || !place.contains(one.node)) continue;
    nodes.push_back(&one);
    sum += static_cast<int>(one.gpus.size());
  }
  std::vector<NodeGpus> picked;
  if (count < 1 || sum < count) return picked;
  const auto is_held = [&](const NodeGpus& one) {
    return std::any_of(held.begin(), held.end(), [&](const NodeGpus& own) { return own.node == one.node; });
  };
  const auto whole = [&](const NodeGpus* one) { return static_cast<int>(one->gpus.size()) >= count; };
  std::erase_if(nodes, [&, any = std::any_of(nodes.begin(), nodes.end(), whole)](const NodeGpus* one) {
    return any && !whole(one);
  });
  const bool on_one = whole(nodes.front());
  std::sort(nodes.begin(), nodes.end(), [&](const NodeGpus* a, const NodeGpus* b) {
    const auto key = [&](const NodeGpus& one) {
      const int gpus = static_cast<int>(one.gpus.size());
      return on_one ? std::tuple(!is_held(one), gpus, place.at(one.node))
                    : std::tuple(false, -gpus, place.at(one.node));
    };
    return key(*a) < key(*b);
  });
  for (const NodeGpus* one : nodes) {
    if (count == 0) break;
    const auto taken = std::min<std::size_t>(one->gpus.size(), static_cast<std::size_t>(count));
    picked.push_back({one->node, {one->gpus.begin(), one->gpus.begin() + static_cast<std::ptrdiff_t>(taken)}});
    count -= static_cast<int>(taken);
  }
  std::sort(picked.begin(), picked.end(), [](const NodeGpus& a, const NodeGpus& b) { return a.node < b.node; });
  return picked;
}

}  // namespace espalier
