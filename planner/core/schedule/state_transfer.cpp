#include "planner/core/schedule/state_transfer.hpp"

#include <algorithm>
#include <map>

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

}  // namespace espalier
