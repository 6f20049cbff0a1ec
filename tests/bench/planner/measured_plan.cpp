#include "tests/bench/planner/measured_plan.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace espalier::bench {
namespace {

// Number of GPUs of one TP group, by node.
std::map<int, int> spread(const std::vector<int>& nodes, int first, int tp) {
  std::map<int, int> on;
  for (int rank = first; rank < first + tp; ++rank) ++on[nodes[static_cast<std::size_t>(rank)]];
  return on;
}

int part(int whole, int parts, int index) { return whole / parts + (index < whole % parts ? 1 : 0); }

// Corrects groups across nodes, which place_plan() does not know: their kind, and rings counted per
// TP rank and node.
void mend(PlacedStage& stage, const std::vector<int>& nodes, int first, const Measurement& m) {
  std::map<std::pair<int, int>, int> members;  // by node and TP rank
  std::map<int, std::pair<int, int>> classes;  // by kind: replicas, largest share
  const int micro_batch = m.shape.global_batch / m.micro_batches;
  for (int j = 0; j < m.dp; ++j) {
    const int begin = first + j * m.tp;
    const auto on = spread(nodes, begin, m.tp);
    for (int t = 0; t < m.tp; ++t) ++members[{nodes[static_cast<std::size_t>(begin + t)], t}];
    const int weakest =
        std::min_element(on.begin(), on.end(), [](auto& a, auto& b) { return a.second < b.second; })->second;
    auto& [replicas, share] = classes[on.size() > 1 ? weakest : 0];
    ++replicas;
    share = std::max(share, part(micro_batch, m.dp, j));
  }
  std::set<int> used;
  stage.shape.least_members = m.dp;
  for (const auto& [key, count] : members) {
    used.insert(key.first);
    stage.shape.least_members = std::min(stage.shape.least_members, count);
  }
  stage.shape.level = used.size() > 1 ? 1 : 0;
  std::size_t c = 0;
  for (const auto& [kind, one] : classes) {
    if (c == StageShape::kMaxClasses) break;
    stage.shape.classes[c] = {0, static_cast<std::int16_t>(kind), one.first};
    stage.shares.most[c++] = one.second;
  }
  stage.shape.class_count = static_cast<int>(c);
}

}  // namespace

PlacedPlan place(const Measurement& m) {
  std::vector<int> nodes;  // by rank
  Topology topology;
  for (std::size_t n = 0; n < m.placement.size(); ++n) {
    nodes.insert(nodes.end(), static_cast<std::size_t>(m.placement[n] - '0'), static_cast<int>(n));
    topology.add_node("n" + std::to_string(n), 0, std::vector<std::int16_t>(m.placement.size() * 9, 0), {});
  }
  Plan plan{m.shape.global_batch, m.micro_batches, {}};
  int rank = 0;
  for (int s = 0; s < m.pp; ++s) {
    Stage stage{part(m.shape.layers, m.pp, s), m.tp, {}};
    for (int j = 0; j < m.dp; ++j) {
      Replica replica{part(m.shape.global_batch / m.micro_batches, m.dp, j), {}};
      const std::string node = "n" + std::to_string(nodes[static_cast<std::size_t>(rank)]);
      for (int t = 0; t < m.tp; ++t) replica.gpus.push_back({node, rank++});
      stage.replicas.push_back(std::move(replica));
    }
    plan.stages.push_back(std::move(stage));
  }
  PlacedPlan placed = place_plan(topology, plan);
  for (int s = 0; s < m.pp; ++s) mend(placed.stages[static_cast<std::size_t>(s)], nodes, s * m.dp * m.tp, m);
  return placed;
}

}  // namespace espalier::bench
