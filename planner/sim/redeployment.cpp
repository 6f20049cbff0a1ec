#include "planner/sim/redeployment.hpp"

#include <algorithm>
#include <map>

#include "planner/core/error.hpp"

namespace espalier::sim {
namespace {

// The state that a GPU holds: layers [first, last), and of each layer the slice [low, high) of [0,
// 1).
struct Block {
  int first = 0, last = 0;
  double low = 0, high = 0;
  bool begins = false, ends = false;  // the stage has the embedding, the head
};

std::vector<Block> blocks_of(const Plan& plan) {
  std::vector<Block> blocks;
  int first = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    for (std::size_t j = 0; j < stage.replicas.size(); ++j)
      for (int t = 0; t < stage.tp; ++t)
        blocks.push_back({first, first + stage.layers, static_cast<double>(t) / stage.tp,
                          static_cast<double>(t + 1) / stage.tp, s == 0, s + 1 == plan.stages.size()});
    first += stage.layers;
  }
  return blocks;
}

double bytes_of(const JobCoefficients& job, const Block& block) {
  const double whole = (block.last - block.first) * job.param_optim_bytes +
                       (block.begins ? job.first.param_optim_bytes : 0) + (block.ends ? job.last.param_optim_bytes : 0);
  return whole * (block.high - block.low);
}

// The share of the state that a GPU holds. With ZeRO-1 it holds 1 / dp of the optimizer's part.
double shard_of(const JobCoefficients& job, std::size_t dp) {
  if (!job.zero1 || job.param_optim_bytes <= 0) return 1;
  const double weights = job.weight_bytes / job.param_optim_bytes;
  return weights + (1 - weights) / static_cast<double>(dp);
}

Block common(const Block& a, const Block& b) {
  Block both{std::max(a.first, b.first), std::min(a.last, b.last), std::max(a.low, b.low),
             std::min(a.high, b.high),   a.begins && b.begins,     a.ends && b.ends};
  if (both.last < both.first || both.high <= both.low) return {};
  return both;
}

// Bytes of `wanted` that the `held` blocks contain together. Blocks with the same content count
// once.
double covered(const JobCoefficients& job, const Block& wanted, const std::vector<Block>& held) {
  std::vector<Block> parts;
  for (const Block& block : held) {
    const Block both = common(wanted, block);
    if (both.high <= both.low) continue;
    const bool known = std::any_of(parts.begin(), parts.end(), [&](const Block& p) {
      return p.first <= both.first && p.last >= both.last && p.low <= both.low && p.high >= both.high;
    });
    if (!known) parts.push_back(both);
  }
  double sum = 0;
  for (const Block& part : parts) sum += bytes_of(job, part);
  return std::min(sum, bytes_of(job, wanted));
}

}  // namespace

const char* to_string(Method method) {
  switch (method) {
    case Method::checkpoint:
      return "checkpoint";
    case Method::overlap:
      return "overlap";
    case Method::device:
      return "device";
    case Method::adopt:
      break;
  }
  return "adopt";
}

double state_bytes(const JobCoefficients& job) {
  return job.layers * job.param_optim_bytes + job.first.param_optim_bytes + job.last.param_optim_bytes;
}

std::vector<MovedBytes> moved_bytes(const JobCoefficients& job, const Plan& from, const Plan& to) {
  std::map<GpuId, Block> before;
  std::map<std::string, std::vector<Block>> on_node;
  const auto ranks = from.ranks();
  const auto blocks = blocks_of(from);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    before[ranks[r]] = blocks[r];
    on_node[ranks[r].node].push_back(blocks[r]);
  }
  const auto next = blocks_of(to);
  std::vector<MovedBytes> moved;
  std::size_t r = 0;
  for (const Stage& stage : to.stages) {
    const double shard = shard_of(job, stage.replicas.size());
    for (const Replica& replica : stage.replicas)
      for (const GpuId& gpu : replica.gpus) {
        const Block& wanted = next[r++];
        const double whole = bytes_of(job, wanted);
        const auto own = before.find(gpu);
        const double local = own == before.end() ? 0 : bytes_of(job, common(wanted, own->second));
        const auto neighbours = on_node.find(gpu.node);
        const double here = neighbours == on_node.end() ? 0 : covered(job, wanted, neighbours->second);
        moved.push_back(
            {local * shard, std::max(0.0, here - local) * shard, std::max(0.0, whole - std::max(here, local)) * shard});
      }
  }
  return moved;
}

double search_seconds(const RedeployOptions& options, bool pruned, int gpus) {
  return pruned ? std::min(options.pruned_most_seconds, gpus * options.pruned_seconds_per_gpu)
                : std::min(options.search_most_seconds, gpus * options.search_seconds_per_gpu);
}

RedeployCost redeploy_cost(Method method, const RedeployOptions& options, const Site& site, const JobCoefficients& job,
                           const Plan& from, const Plan& to) {
  if (const auto known = options.measured.find(method); known != options.measured.end()) {
    const MeasuredCost& cost = known->second;
    return {cost.overlap_seconds + cost.overlap_seconds_per_gpu * to.gpu_count(), cost.pause_seconds};
  }
  const double storage = 2 * state_bytes(job) / (options.storage_gb_s * 1e9);
  if (method == Method::checkpoint) return {0, storage + options.start_seconds};
  if (method == Method::overlap) return {options.start_seconds, storage};
  const auto moved = moved_bytes(job, from, to);
  const auto ranks = to.ranks();
  const bool copies = method == Method::device;
  std::map<int, double> inbound;  // bytes from other nodes, by node
  double slowest = 0;
  for (std::size_t r = 0; r < moved.size(); ++r) {
    const int node = site.topology.find(ranks[r].node);
    const NodeKind& kind = site.hardware.kinds[static_cast<std::size_t>(site.topology.kind(node))];
    inbound[node] += moved[r].far;
    const double seconds = (copies ? moved[r].local / (options.local_gb_s * 1e9) : 0) +
                           moved[r].near / (kind.dp_bandwidth * 1e3 * options.network_share) +
                           moved[r].far / (kind.nic_bandwidth * 1e3 * options.network_share);
    slowest = std::max(slowest, seconds);
  }
  for (const auto& [node, bytes] : inbound) {
    const NodeKind& kind = site.hardware.kinds[static_cast<std::size_t>(site.topology.kind(node))];
    const int rails = kind.nics > 0 ? kind.nics : static_cast<int>(site.topology.gpu_types(node).size());
    slowest = std::max(slowest, bytes / (kind.nic_bandwidth * 1e3 * options.network_share * std::max(1, rails)));
  }
  return {options.start_seconds, slowest + (copies ? options.switch_seconds : options.adopt_switch_seconds)};
}

double resume_seconds(const RedeployOptions& options, const JobCoefficients& job, int gpus) {
  if (const auto known = options.measured.find(Method::checkpoint); known != options.measured.end()) {
    const MeasuredCost& cost = known->second;
    return cost.overlap_seconds + cost.overlap_seconds_per_gpu * gpus + cost.pause_seconds;
  }
  return options.start_seconds + 2 * state_bytes(job) / (options.storage_gb_s * 1e9);
}

}  // namespace espalier::sim
