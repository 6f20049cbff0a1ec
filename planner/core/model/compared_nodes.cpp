#include "planner/core/model/compared_nodes.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

namespace espalier {

std::map<std::string, double> compute_shares(const Site& site, const Profile& profile) {
  const auto& stages = profile.plan.stages;
  // The stage (all inner ones are alike), TP degree, type of GPU, samples of a micro-batch: a layer has a part that
  // lasts as long for one sample as for many, so replicas with fewer are slower a sample.
  std::map<std::tuple<int, int, int, int>, std::vector<std::pair<std::string, double>>> alike;
  for (const ReplicaProfile& one : profile.replicas) {
    if (one.stage < 0 || static_cast<std::size_t>(one.stage) >= stages.size()) continue;
    const Stage& stage = stages[static_cast<std::size_t>(one.stage)];
    if (one.replica < 0 || static_cast<std::size_t>(one.replica) >= stage.replicas.size()) continue;
    const Replica& replica = stage.replicas[static_cast<std::size_t>(one.replica)];
    const double ms = one.fwd - one.comm_fwd + one.bwd;
    if (replica.gpus.empty() || replica.share <= 0 || stage.layers <= 0 || !(ms > 0)) continue;
    const GpuId& gpu = replica.gpus.front();
    const int node = site.topology.find(gpu.node);
    if (node < 0 || gpu.index < 0 || static_cast<std::size_t>(gpu.index) >= site.topology.gpu_types(node).size())
      continue;
    const int type = site.topology.gpu_types(node)[static_cast<std::size_t>(gpu.index)];
    const bool inner = one.stage > 0 && static_cast<std::size_t>(one.stage) + 1 < stages.size();
    alike[{inner ? -1 : one.stage, stage.tp, type, replica.share}].emplace_back(gpu.node,
                                                                                ms / replica.share / stage.layers);
  }
  std::map<std::string, double> shares;
  for (const auto& group : alike) {
    const auto& nodes = group.second;
    if (std::all_of(nodes.begin(), nodes.end(), [&](const auto& one) { return one.first == nodes.front().first; }))
      continue;
    std::vector<double> times;
    for (const auto& [node, ms] : nodes) times.push_back(ms);
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
    std::nth_element(times.begin(), middle, times.end());
    for (const auto& [node, ms] : nodes) {
      const auto [at, fresh] = shares.try_emplace(node, *middle / ms);
      if (!fresh) at->second = std::min(at->second, *middle / ms);
    }
  }
  return shares;
}

}  // namespace espalier
