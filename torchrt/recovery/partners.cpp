#include "torchrt/recovery/partners.hpp"

#include <map>
#include <string>

namespace espalier::torchrt {

std::vector<int> snapshot_partners(const Plan& plan) {
  const std::vector<GpuId> gpus = plan.ranks();
  std::map<std::string, std::size_t> numbers;
  std::vector<std::vector<int>> nodes;  // ranks
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    const auto [known, fresh] = numbers.try_emplace(gpus[rank].node, nodes.size());
    if (fresh) nodes.emplace_back();
    nodes[known->second].push_back(static_cast<int>(rank));
  }
  std::vector<int> partners(gpus.size(), -1);
  if (nodes.size() < 2) return partners;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const std::vector<int>& next = nodes[(node + 1) % nodes.size()];
    for (std::size_t i = 0; i < nodes[node].size(); ++i)
      partners[static_cast<std::size_t>(nodes[node][i])] = next[i % next.size()];
  }
  return partners;
}

}  // namespace espalier::torchrt
