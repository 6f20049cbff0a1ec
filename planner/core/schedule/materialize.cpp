#include "planner/core/schedule/materialize.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "planner/core/data_parallel.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/shard_order.hpp"

namespace espalier {
namespace {

// A GPU that the new plan may use, and the state that it holds now.
struct Seat {
  int node = 0, gpu = 0, type = 0;
  int first_layer = 0, layers = 0;  // under the present plan; layers == 0: none
  int replica = 1 << 20;            // replica in the present plan; keeps its GPUs together
  int stage = -1;                   // in the new plan
};

struct Present {
  int first_layer = 0, layers = 0, replica = 0;
};

// By node and GPU: what the GPU's rank holds. A stage of several chunks counts as if its layers came after those of the
// stages before it: the new plan is cut into chunks in the same way, so such stages have the same layers in common.
std::map<std::pair<int, int>, Present> present_places(const Topology& topology, const ElasticJob& job) {
  std::map<std::pair<int, int>, Present> places;
  if (!job.plan) return places;
  const auto ranks = job.plan->ranks();
  const auto where = rank_places(*job.plan);
  std::vector<int> first{0};
  for (const Stage& stage : job.plan->stages) first.push_back(first.back() + stage.layers);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto stage = static_cast<std::size_t>(where[r].stage);
    places[{topology.find(ranks[r].node, ranks[r].index), ranks[r].index}] = {
        first[stage], job.plan->stages[stage].layers, where[r].replica};
  }
  return places;
}

std::vector<Seat> seats_of(const Problem& problem, const ElasticJob& job, const std::vector<NodeGpus>& available) {
  const auto places = present_places(problem.topology, job);
  std::vector<Seat> seats;
  for (const NodeGpus& node : available)
    for (const int gpu : node.gpus) {
      Seat seat{node.node, gpu, problem.topology.gpu_types(node.node)[static_cast<std::size_t>(gpu)], 0, 0,
                1 << 20,   -1};
      if (const auto at = places.find({node.node, gpu}); at != places.end()) {
        seat.first_layer = at->second.first_layer;
        seat.layers = at->second.layers;
        seat.replica = at->second.replica;
      }
      seats.push_back(seat);
    }
  return seats;
}

int overlap(const Seat& seat, int first, int layers) {
  return std::max(0, std::min(seat.first_layer + seat.layers, first + layers) - std::max(seat.first_layer, first));
}

// Assigns seats to each piece of each stage: the largest overlap of layers first, then by index.
bool seat_stages(const PlanSketch& sketch, std::vector<Seat>& seats) {
  std::map<std::tuple<int, int>, std::vector<std::size_t>> on_node;  // by node and type
  for (std::size_t i = 0; i < seats.size(); ++i) on_node[{seats[i].node, seats[i].type}].push_back(i);
  std::map<std::tuple<int, int>, std::vector<std::pair<int, int>>> wanted;  // stage, GPUs
  for (std::size_t s = 0; s < sketch.stages.size(); ++s)
    for (const Piece& piece : sketch.stages[s].pieces)
      wanted[{piece.node, piece.type}].push_back({static_cast<int>(s), piece.gpus});
  std::vector<int> first(sketch.stages.size(), 0);
  for (std::size_t s = 1; s < first.size(); ++s) first[s] = first[s - 1] + sketch.stages[s - 1].layers;

  for (auto& [where, wants] : wanted) {
    auto& free = on_node[where];
    std::vector<std::tuple<int, std::size_t, std::size_t>> pairs;  // -overlap, want, seat
    for (std::size_t w = 0; w < wants.size(); ++w)
      for (const std::size_t i : free) {
        const auto s = static_cast<std::size_t>(wants[w].first);
        pairs.emplace_back(-overlap(seats[i], first[s], sketch.stages[s].layers), w, i);
      }
    std::sort(pairs.begin(), pairs.end());
    for (const auto& [none, w, i] : pairs)
      if (wants[w].second > 0 && seats[i].stage < 0) {
        seats[i].stage = wants[w].first;
        --wants[w].second;
      }
    for (const auto& want : wants)
      if (want.second > 0) return false;
  }
  return true;
}

// The replicas of one stage: runs of tp neighbouring GPUs on one node. The run with the lead GPU
// comes first. The others keep their present order.
std::vector<Replica> replicas_of(const Problem& problem, int tp, std::vector<Seat> seats, const GpuId& lead) {
  std::sort(seats.begin(), seats.end(), [](const Seat& a, const Seat& b) {
    return std::tuple(a.node, a.type, a.replica, a.gpu) < std::tuple(b.node, b.type, b.replica, b.gpu);
  });
  struct Run {
    Replica replica;
    bool leads = false;
    int was = 0, type = 0;
  };
  std::vector<Run> runs;
  for (std::size_t i = 0; i < seats.size(); i += static_cast<std::size_t>(tp)) {
    Run run;
    run.was = seats[i].replica;
    run.type = seats[i].type;
    for (std::size_t k = i; k < i + static_cast<std::size_t>(tp); ++k) {
      GpuId gpu{problem.topology.name(seats[k].node), seats[k].gpu};
      const bool leads = gpu == lead;
      run.leads = run.leads || leads;
      run.replica.gpus.insert(leads ? run.replica.gpus.begin() : run.replica.gpus.end(), std::move(gpu));
    }
    runs.push_back(std::move(run));
  }
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
    return std::tuple(!a.leads, a.was) < std::tuple(!b.leads, b.was);
  });
  std::vector<Replica> replicas;
  for (Run& run : runs) replicas.push_back(std::move(run.replica));
  return replicas;
}

// A program that is data-parallel only may divide its state among its ranks. Their order is free, but for the first
// one.
void order_shards(const ElasticJob& job, std::vector<Stage>& stages) {
  if (!data_parallel_only(job) || !job.plan || stages.size() != 1 || stages.front().tp != 1) return;
  std::vector<Replica>& replicas = stages.front().replicas;
  std::vector<GpuId> gpus;
  for (const Replica& replica : replicas) gpus.push_back(replica.gpus.front());
  std::vector<Replica> ordered;
  for (const std::size_t place : shard_order(job.plan->ranks(), gpus)) ordered.push_back(replicas[place]);
  replicas = std::move(ordered);
}

// Puts the lead GPU into the first stage, if that stage has a GPU of the same type on the lead
// node. The two GPUs swap stages, whatever state the lead GPU holds.
void seat_lead(std::vector<Seat>& seats, int node, int gpu) {
  const auto lead =
      std::find_if(seats.begin(), seats.end(), [&](const Seat& s) { return s.node == node && s.gpu == gpu; });
  if (lead == seats.end() || lead->stage == 0) return;
  const auto other = std::find_if(seats.begin(), seats.end(), [&](const Seat& s) {
    return s.node == node && s.type == lead->type && s.stage == 0;
  });
  if (other != seats.end()) std::swap(lead->stage, other->stage);
}

void share_out(const Problem& problem, const StageShape& shape, int micro_batch, std::vector<Replica>& replicas) {
  const Shares shares = balance_shares(problem.hardware, problem.job, shape, micro_batch, problem.bounds.equal_shares);
  std::array<int, StageShape::kMaxClasses> given{};
  for (Replica& replica : replicas) {
    const GpuId& gpu = replica.gpus.front();
    const int node = problem.topology.find(gpu.node);
    const int type = problem.topology.gpu_types(node)[static_cast<std::size_t>(gpu.index)];
    for (std::size_t c = 0; c < static_cast<std::size_t>(shape.class_count); ++c)
      if (shape.classes[c].type == type && shape.classes[c].kind == problem.topology.kind(node))
        replica.share = given[c]++ < shares.more[c] ? shares.most[c] : shares.most[c] - 1;
  }
}

}  // namespace

std::optional<Plan> materialize(const Problem& problem, const PlanSketch& sketch, const ElasticJob& job,
                                const std::vector<NodeGpus>& available) {
  auto seats = seats_of(problem, job, available);
  if (!seat_stages(sketch, seats)) return std::nullopt;
  GpuId lead;
  if (!job.anchor.empty() && !job.anchor.front().gpus.empty()) {
    lead = {job.anchor.front().node, job.anchor.front().gpus.front()};
    seat_lead(seats, problem.topology.find(lead.node, lead.index), lead.index);
  }
  Plan plan{problem.job.global_batch, sketch.micro_batches, {}};
  for (std::size_t s = 0; s < sketch.stages.size(); ++s) {
    const StageSketch& from = sketch.stages[s];
    std::vector<Seat> own;
    for (const Seat& seat : seats)
      if (seat.stage == static_cast<int>(s)) own.push_back(seat);
    Stage stage{from.layers, from.tp, replicas_of(problem, from.tp, std::move(own), lead)};
    share_out(problem, stage_shape(problem, from.pieces, {}, from.tp), plan.micro_batch(), stage.replicas);
    plan.stages.push_back(std::move(stage));
  }
  order_shards(job, plan.stages);
  return in_its_form(std::move(plan), sketch.form, job);
}

}  // namespace espalier
