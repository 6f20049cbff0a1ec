#include "planner/core/schedule/state_transfer.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "planner/core/model/communication_time.hpp"

namespace espalier {
namespace {

constexpr double kReached = 0.5;  // share of the rails' bandwidth that a transfer reaches

// The share of the state that a replica holds. With ZeRO-1 it holds only a part of the optimizer's
// state.
double held_share(const JobCoefficients& job, int replicas) {
  if (!job.zero1 || job.param_optim_bytes <= 0) return 1;
  const double weights = job.weight_bytes / job.param_optim_bytes;
  return weights + (1 - weights) / replicas;
}

// From the closest node that has the state.
int nearest(const Topology& topology, int node, const std::vector<NodeGpus>& held) {
  int least = held.empty() ? 1 : topology.distance(node, held.front().node);
  for (const NodeGpus& one : held) least = std::min(least, topology.distance(node, one.node));
  return least;
}

}  // namespace

double transfer_seconds(const Problem& problem, const PlanSketch& next, const std::vector<NodeGpus>& held) {
  std::map<int, double> inbound;  // bytes by node
  for (const StageSketch& stage : next.stages) {
    const double replica =
        stage.layers * problem.job.param_optim_bytes * held_share(problem.job, std::max(1, stage.gpus() / stage.tp));
    for (const Piece& piece : stage.pieces)
      if (std::none_of(held.begin(), held.end(), [&](const NodeGpus& node) { return node.node == piece.node; }))
        inbound[piece.node] += replica * piece.gpus / stage.tp;
  }
  double slowest = 0;
  for (const auto& [node, bytes] : inbound) {
    const NodeKind& kind = problem.hardware.kinds[static_cast<std::size_t>(problem.topology.kind(node))];
    const int rails = kind.nics > 0 ? kind.nics : static_cast<int>(problem.topology.gpu_types(node).size());
    double rail = rail_bandwidth(kind, problem.job.rail_ms_per_byte);
    for (int level = 1; level < nearest(problem.topology, node, held); ++level) rail *= problem.hardware.crossing;
    slowest = std::max(slowest, bytes / (rail * 1e3 * kReached * std::max(1, rails)));
  }
  return slowest;
}

namespace {

// What a stage holds, in bytes of all its TP ranks together: by layer, and then the embedding's and the head's edge.
std::vector<std::vector<double>> held_by_stages(const JobCoefficients& job, const Plan& plan) {
  const auto chunks = plan.model_chunks();
  const auto layers = static_cast<std::size_t>(plan.total_layers());
  std::vector<std::vector<double>> held(plan.stages.size(), std::vector<double>(layers + 2, 0));
  std::size_t layer = 0;
  for (const Chunk& chunk : chunks)
    for (int i = 0; i < chunk.layers && layer < layers; ++i)
      held[static_cast<std::size_t>(chunk.stage)][layer++] = job.param_optim_bytes;
  if (chunks.empty()) return held;
  held[static_cast<std::size_t>(chunks.front().stage)][layers] = job.first.param_optim_bytes;
  held[static_cast<std::size_t>(chunks.back().stage)][layers + 1] = job.last.param_optim_bytes;
  return held;
}

}  // namespace

double transfer_seconds(const Problem& problem, const Plan& from, const Plan& to) {
  if (from.total_layers() != to.total_layers()) return 0;
  const auto before = held_by_stages(problem.job, from), after = held_by_stages(problem.job, to);
  std::map<GpuId, std::size_t> stage_before;
  std::map<std::string, std::set<std::size_t>> on_node;  // stages before
  for (std::size_t s = 0; s < from.stages.size(); ++s)
    for (const Replica& replica : from.stages[s].replicas)
      for (const GpuId& gpu : replica.gpus) {
        stage_before[gpu] = s;
        on_node[gpu.node].insert(s);
      }
  double slowest_near = 0;
  std::map<std::string, double> far;  // bytes by node
  for (std::size_t s = 0; s < to.stages.size(); ++s) {
    const Stage& stage = to.stages[s];
    const double share = held_share(problem.job, std::max<int>(1, static_cast<int>(stage.replicas.size()))) / stage.tp;
    for (const Replica& replica : stage.replicas)
      for (const GpuId& gpu : replica.gpus) {
        const auto own = stage_before.find(gpu);
        const bool keeps = own != stage_before.end() && from.stages[own->second].tp == stage.tp;
        double near = 0;
        for (std::size_t part = 0; part < after[s].size(); ++part) {
          if (after[s][part] <= 0 || (keeps && before[own->second][part] > 0)) continue;
          const auto& neighbours = on_node[gpu.node];
          const bool here = std::any_of(neighbours.begin(), neighbours.end(),
                                        [&](std::size_t other) { return before[other][part] > 0; });
          (here ? near : far[gpu.node]) += after[s][part] * share;
        }
        const int node = problem.topology.find(gpu.node, gpu.index);
        if (node < 0) continue;
        const NodeKind& kind = problem.hardware.kinds[static_cast<std::size_t>(problem.topology.kind(node))];
        slowest_near = std::max(slowest_near, near / (kind.dp_bandwidth * 1e3 * kReached));
      }
  }
  double slowest_far = 0;
  for (const auto& [name, bytes] : far) {
    const int node = problem.topology.find(name);
    if (node < 0) continue;
    const NodeKind& kind = problem.hardware.kinds[static_cast<std::size_t>(problem.topology.kind(node))];
    const int rails = kind.nics > 0 ? kind.nics : static_cast<int>(problem.topology.gpu_types(node).size());
    slowest_far = std::max(slowest_far, bytes / (rail_bandwidth(kind, problem.job.rail_ms_per_byte) * 1e3 * kReached *
                                                 std::max(1, rails)));
  }
  return slowest_near + slowest_far;
}

}  // namespace espalier
