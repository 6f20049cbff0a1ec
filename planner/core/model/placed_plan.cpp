#include "planner/core/model/placed_plan.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/core/model/communication_time.hpp"
#include "planner/core/model/form_figures.hpp"
#include "planner/core/model/own_lists.hpp"
#include "planner/core/model/scheduled_plan.hpp"
#include "planner/core/model/scheduled_time.hpp"

namespace espalier {
namespace {

struct PlacedReplica {
  int node = 0;
  ReplicaClass kind;
  int share = 0;
};

PlacedReplica place_replica(const Topology& topology, const Replica& replica) {
  const GpuId& first = replica.gpus.front();
  return {topology.find(first.node, first.index), replica_class(topology, replica), replica.share};
}

void add_to_class(PlacedStage& stage, const PlacedReplica& replica, std::size_t index) {
  const auto key = [](const ReplicaClass& c) { return std::tuple(c.type, c.kind); };
  auto& shape = stage.shape;
  std::size_t at = 0;
  const auto count = static_cast<std::size_t>(shape.class_count);
  while (at < count && key(shape.classes[at]) < key(replica.kind)) ++at;
  if (at == count || key(shape.classes[at]) != key(replica.kind)) {
    if (shape.class_count == StageShape::kMaxClasses)
      throw Error("stage " + std::to_string(index) + " mixes more than " + std::to_string(StageShape::kMaxClasses) +
                  " kinds of replicas");
    for (std::size_t c = count; c > at; --c) {
      shape.classes[c] = shape.classes[c - 1];
      stage.shares.most[c] = stage.shares.most[c - 1];
      stage.shares.more[c] = stage.shares.more[c - 1];
    }
    ++shape.class_count;
    shape.classes[at] = replica.kind;
    shape.classes[at].replicas = 0;
    stage.shares.most[at] = stage.shares.more[at] = 0;
  }
  ++shape.classes[at].replicas;
  if (replica.share > stage.shares.most[at]) {
    stage.shares.most[at] = replica.share;
    stage.shares.more[at] = 0;
  }
  if (replica.share == stage.shares.most[at]) ++stage.shares.more[at];
}

PlacedStage place_stage(const Topology& topology, const Stage& stage, const std::vector<PlacedReplica>& replicas,
                        std::size_t index) {
  PlacedStage placed;
  placed.layers = stage.layers;
  placed.shape.tp = stage.tp;
  placed.shape.replicas = static_cast<int>(replicas.size());
  placed.shares.feasible = true;
  // Replicas by node. Each TP rank has its own ring with one member per replica.
  std::map<int, int> members;
  for (const PlacedReplica& replica : replicas) {
    add_to_class(placed, replica, index);
    ++members[replica.node];
    placed.one_machine = placed.one_machine && topology.whole(replica.node) == topology.whole(replicas.front().node);
    placed.shape.level = std::max(placed.shape.level, topology.distance(replicas.front().node, replica.node));
  }
  const auto [least, most] = std::minmax_element(members.begin(), members.end(),
                                                 [](const auto& a, const auto& b) { return a.second < b.second; });
  placed.shape.least_members = least->second;
  placed.gpus_per_node = most->second * stage.tp;
  return placed;
}

Boundary boundary_between(const Topology& topology, const std::vector<PlacedReplica>& senders,
                          const std::vector<PlacedReplica>& receivers) {
  std::vector<int> near_sent(senders.size()), far_sent(senders.size());
  std::vector<int> near_received(receivers.size()), far_received(receivers.size());
  Boundary boundary;
  std::size_t i = 0, j = 0;
  int left = senders[0].share, right = receivers[0].share;
  while (i < senders.size() && j < receivers.size()) {
    const int samples = std::min(left, right);
    const int level = topology.distance(senders[i].node, receivers[j].node);
    (level > 0 ? far_sent[i] : near_sent[i]) += samples;
    (level > 0 ? far_received[j] : near_received[j]) += samples;
    boundary.level = std::max(boundary.level, level);
    left -= samples;
    right -= samples;
    if (left == 0 && ++i < senders.size()) left = senders[i].share;
    if (right == 0 && ++j < receivers.size()) right = receivers[j].share;
  }
  const auto most = [](const std::vector<int>& a, const std::vector<int>& b) {
    return std::max(*std::max_element(a.begin(), a.end()), *std::max_element(b.begin(), b.end()));
  };
  boundary.near_samples = most(near_sent, near_received);
  boundary.far_samples = most(far_sent, far_received);
  return boundary;
}

}  // namespace

ReplicaClass replica_class(const Topology& topology, const Replica& replica) {
  ReplicaClass result{0, 0, 1};
  for (std::size_t k = 0; k < replica.gpus.size(); ++k) {
    const GpuId& gpu = replica.gpus[k];
    const auto name = [&] { return "GPU " + gpu.node + "/" + std::to_string(gpu.index); };
    const int node = topology.find(gpu.node);
    if (node < 0) throw Error(name() + ": its node is unknown");
    const auto& types = topology.gpu_types(node);
    if (gpu.index < 0 || static_cast<std::size_t>(gpu.index) >= types.size())
      throw Error(name() + ": the node has " + std::to_string(types.size()) + " GPUs");
    const std::int16_t type = types[static_cast<std::size_t>(gpu.index)];
    if (k > 0 && type != result.type)
      throw Error(name() + ": another type than its replica's first GPU; a TP group has one type");
    result.type = type;
    result.kind = static_cast<std::int16_t>(topology.kind(node));
  }
  return result;
}

PlacedPlan place_plan(const Topology& topology, const Plan& plan) {
  if (const auto broken = validate(plan); !broken.empty()) throw Error(broken.front());
  PlacedPlan placed{plan.micro_batches, plan.global_batch, {}};
  if (plan.stages.size() <= static_cast<std::size_t>(kMostListedStages) &&
      plan.chunks.size() <= static_cast<std::size_t>(kMostListedChunks))
    placed.form = form_of(plan);
  if (placed.form.chunks > 1) placed.chunks = plan.chunks;
  placed.in_form =
      plan.chunks.empty() || plan.chunks.size() == plan.stages.size() * static_cast<std::size_t>(placed.form.chunks);
  std::vector<PlacedReplica> before, front;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    std::vector<PlacedReplica> replicas;
    for (const Replica& replica : plan.stages[s].replicas) replicas.push_back(place_replica(topology, replica));
    if (s > 0) placed.stages.back().next = boundary_between(topology, before, replicas);
    placed.stages.push_back(place_stage(topology, plan.stages[s], replicas, s));
    if (s == 0) front = replicas;
    before = std::move(replicas);
  }
  if (placed.form.chunks > 1 && !placed.form.v_shaped() && placed.stages.size() > 1)
    placed.stages.back().next = boundary_between(topology, before, front);
  if (placed.form.last_stage(static_cast<int>(placed.stages.size())) > 0) {
    placed.ends = boundary_between(topology, front, before);
    placed.ends.near_samples = placed.ends.level == 0 ? 1 : 0;
    placed.ends.far_samples = placed.ends.level == 0 ? 0 : 1;
  }
  return placed;
}

StagePosition PlacedPlan::position(int stage, const JobCoefficients& job) const {
  const int count = static_cast<int>(stages.size());
  StagePosition at{stage, count, micro_batches, form};
  const OwnLists* own = in_form ? lists_that_run(job, form, count, micro_batches) : nullptr;
  if (!in_form) at.held = std::min(count - stage, micro_batches);
  if (chunks.empty() || (count < 2 && own == nullptr)) return at;
  std::vector<double> weight;
  for (const Chunk& chunk : chunks)
    weight.push_back(static_cast<double>(chunk.layers) / stages[static_cast<std::size_t>(chunk.stage)].layers);
  if (own != nullptr) {
    at.held = own->held(stage, weight, job.recompute);
    return at;
  }
  const int simulated = form.schedule() == "gpipe" ? 1 : enough_micro_batches(count, micro_batches);
  const auto lists = lists_of(form, count, simulated);
  at.held = most_held_by(lists->actions[static_cast<std::size_t>(stage)], weight, job.recompute);
  if (form.schedule() == "gpipe") at.held *= micro_batches;
  return at;
}

namespace {

// The most bytes that a GPU of the first or of the last stage sends or receives of a tied table's gradient: each copy
// gets the other's rows once, as floats, and the replicas of a stage share the sending (torchrt/schedule/tied.hpp).
double tied_bytes_per_gpu(const JobCoefficients& job, const PlacedStage& front, const PlacedStage& back) {
  const double table = std::min(job.first.param_bytes, job.last.param_bytes) * (job.integer_sums ? 0.5 : 1);
  const auto of_gpu = [&](const StageShape& own, const StageShape& other) {
    return table / own.tp * std::max(1.0, static_cast<double>(other.replicas) / own.replicas);
  };
  return std::max(of_gpu(front.shape, back.shape), of_gpu(back.shape, front.shape));
}

}  // namespace

std::vector<StageTime> stage_times(const Hardware& hardware, const JobCoefficients& job, const PlacedPlan& plan) {
  std::vector<StageTime> times;
  times.reserve(plan.stages.size());
  const std::size_t count = plan.stages.size();
  const auto last = static_cast<std::size_t>(plan.form.last_stage(static_cast<int>(count)));
  for (std::size_t s = 0; s < count; ++s) {
    const PlacedStage& stage = plan.stages[s];
    const StageRates rates = stage_rates(hardware, job, stage.shape, stage.shares);
    times.push_back(stage_time(job, rates, stage.layers, s == 0, s == last));
    times.back().send = send_ms(hardware, job.boundary_tensors * job.activ_bytes, stage, plan.stages[(s + 1) % count],
                                job.rail_ms_per_byte);
  }
  if (last > 0 && job.tied_bytes > 0) {
    PlacedStage front = plan.stages.front();
    front.next = plan.ends;
    const PlacedStage& back = plan.stages[last];
    const double ms = send_ms(hardware, tied_bytes_per_gpu(job, front, back), front, back, job.rail_ms_per_byte);
    times.front().extra += ms;
    times[last].extra += ms;
  }
  return times;
}

double exact_iteration(const Hardware& hardware, const JobCoefficients& job, const PlacedPlan& plan,
                       std::span<const StageTime> times) {
  const int count = static_cast<int>(plan.stages.size());
  const bool own = plan.in_form && lists_that_run(job, plan.form, count, plan.micro_batches) != nullptr;
  if (count < 2 || (plan.form.plain() && !own)) return exact_iteration(times, plan.micro_batches);
  std::vector<StageRates> rates;
  std::vector<int> layers;
  for (const PlacedStage& stage : plan.stages) {
    rates.push_back(stage_rates(hardware, job, stage.shape, stage.shares));
    layers.push_back(stage.layers);
  }
  const auto chunks = plan.chunks.empty() ? cut_or_whole(layers, plan.form) : plan.chunks;
  return scheduled_iteration(job, plan.form, rates, times, chunks, plan.micro_batches);
}

}  // namespace espalier
