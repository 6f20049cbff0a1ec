#include "torchrt/profiler/replica_times.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace espalier::torchrt {

ReplicaProfile replica_times(std::span<const OpTimes> times, int micro_batches) {
  ReplicaProfile one;
  std::set<std::int64_t> steps;
  for (const OpTimes& at : times) {
    steps.insert(at.step);
    const double whole = at.end - at.begin, work = at.end - at.start;
    switch (at.op.kind) {
      case OpKind::forward:
        one.fwd += work;
        // On a paced device that catches up, an operation may end before its sums did.
        one.comm_fwd += std::min(at.sums, work);
        break;
      case OpKind::weight_gradient:
        one.bwd_weights += work;
        [[fallthrough]];
      case OpKind::backward:
        one.bwd += work;
        break;
      case OpKind::update:
        one.optim += work;
        break;
      case OpKind::finish_reduce:
      case OpKind::finish_gather:
        one.sync = one.sync.value_or(0) + whole;
        break;
      default:
        break;
    }
  }
  if (steps.empty()) return one;
  const double per_step = 1e-3 / static_cast<double>(steps.size());  // microseconds -> ms
  const double per_micro_batch = per_step / micro_batches;
  one.fwd *= per_micro_batch;
  one.comm_fwd *= per_micro_batch;
  one.bwd *= per_micro_batch;
  one.bwd_weights *= per_micro_batch;
  one.optim *= per_step;
  if (one.sync) *one.sync *= per_step;
  return one;
}

std::vector<ReplicaProfile> reported(std::vector<ReplicaProfile> replicas, const Plan& plan) {
  std::map<int, double> sync;  // by stage
  std::map<std::pair<int, std::string>, const ReplicaProfile*> slowest;
  std::map<std::pair<int, std::string>, double> spread;
  for (const ReplicaProfile& one : replicas) {
    const Stage& stage = plan.stages[static_cast<std::size_t>(one.stage)];
    if (one.sync) {
      const auto [least, fresh] = sync.try_emplace(one.stage, *one.sync);
      if (!fresh) least->second = std::min(least->second, *one.sync);
    }
    const std::string& node = stage.replicas[static_cast<std::size_t>(one.replica)].gpus.front().node;
    const ReplicaProfile*& chosen = slowest[{one.stage, node}];
    double& most = spread[{one.stage, node}];
    most = std::max(most, one.spread.value_or(0));
    if (!chosen || one.fwd + one.bwd > chosen->fwd + chosen->bwd) chosen = &one;
  }
  std::vector<ReplicaProfile> chosen;
  for (const auto& [where, one] : slowest) {
    chosen.push_back(*one);
    if (const auto least = sync.find(one->stage); least != sync.end()) chosen.back().sync = least->second;
    if (one->spread) chosen.back().spread = spread[where];
  }
  return chosen;
}

}  // namespace espalier::torchrt
