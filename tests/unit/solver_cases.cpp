#include "tests/unit/solver_cases.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "planner/core/model/iteration_time.hpp"
#include "planner/core/model/memory.hpp"

namespace espalier::test {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double uniform(std::mt19937& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}
int pick(std::mt19937& random, int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); }

Hardware tiny_hardware(std::mt19937& random) {
  Hardware hardware;
  const double memory = pick(random, 2) == 0 ? 3000 : 300;
  for (int type = 0; type < 2; ++type)
    hardware.types.push_back({"type" + std::to_string(type), 1, uniform(random, 0.5, 1.5) * memory, 0});
  for (int kind = 0; kind < 2; ++kind)
    hardware.kinds.push_back(
        {uniform(random, 20, 200), uniform(random, 20, 200), uniform(random, 2, 40), pick(random, 3)});
  hardware.v0 = 0.1;
  hardware.v_sat = 8;
  return hardware;
}

JobCoefficients tiny_job(std::mt19937& random, int most_layers) {
  JobCoefficients job;
  const int batches[] = {1, 2, 3, 4, 6, 8, 12};
  job.layers = 1 + pick(random, most_layers);
  job.global_batch = batches[pick(random, 7)];
  job.tp_degrees = {1, 2, 4};
  job.tp_degrees.resize(static_cast<std::size_t>(1 + pick(random, 3)));
  job.activ_bytes = uniform(random, 0.5, 8);
  job.param_bytes = uniform(random, 1, 30);
  job.weight_bytes = job.param_bytes;
  job.param_optim_bytes = 6 * job.param_bytes;
  job.activ_p_bytes = uniform(random, 0.5, 12);
  job.activ_np_bytes = uniform(random, 0.2, 6);
  for (EdgeCoefficients* edge : {&job.first, &job.last}) {
    if (pick(random, 2) == 0) continue;
    *edge = {uniform(random, 0, 1), uniform(random, 0, 30), uniform(random, 0, 100), uniform(random, 0, 5)};
    if (pick(random, 2) == 0) edge->compute_layers = 0;
  }
  if (pick(random, 3) == 0)
    job.tied_bytes = std::min(job.first.param_bytes + job.first.param_optim_bytes,
                              job.last.param_bytes + job.last.param_optim_bytes);
  job.recompute = pick(random, 4) == 0;
  job.zero1 = pick(random, 4) == 0;
  for (int type = 0; type < 2; ++type)
    job.gpu.push_back({uniform(random, 0.5, 2), uniform(random, 1.5, 2.5), uniform(random, 0, 0.5),
                       pick(random, 2) == 0 ? 1.0 : uniform(random, 1, 8), false, false, false, false});
  if (pick(random, 3) == 0) job.fixed_samples = uniform(random, 0, 1);
  if (pick(random, 3) == 0)
    for (const int tp : job.tp_degrees) job.degree_factors.push_back({tp, uniform(random, 0.7, 1.6)});
  return job;
}

PlanBounds tiny_bounds(std::mt19937& random, const JobCoefficients& job) {
  PlanBounds bounds;
  if (pick(random, 8) == 0) bounds.fixed_tp = 1 << pick(random, 3);
  if (pick(random, 8) == 0) {
    do bounds.fixed_micro_batches = 1 + pick(random, job.global_batch);
    while (job.global_batch % bounds.fixed_micro_batches != 0);
  }
  if (pick(random, 8) == 0) bounds.fixed_dp = 1 + pick(random, 3);
  bounds.uniform_dp = pick(random, 6) == 0;
  bounds.fixed_pp = pick(random, 5) == 0 ? 1 + pick(random, 3) : 0;
  bounds.equal_shares = pick(random, 6) == 0;
  if (pick(random, 8) == 0) bounds.types = {pick(random, 2) == 0, true};
  if (pick(random, 8) == 0) bounds.min_gpus = 1 + pick(random, 5);
  if (pick(random, 8) == 0) bounds.max_gpus = 1 + pick(random, 6);
  return bounds;
}

// Visits all ways to give layers to stages.
void for_splits(int stages, int left, std::vector<int>& split, const auto& visit) {
  if (stages == 1) {
    split.push_back(left);
    visit();
    split.pop_back();
    return;
  }
  for (int own = 1; own + stages - 1 <= left; ++own) {
    split.push_back(own);
    for_splits(stages - 1, left - own, split, visit);
    split.pop_back();
  }
}

struct AllPlans {
  const Problem& problem;
  std::vector<Piece> left;
  PlanSketch plan;
  double best = kNever;

  void stages_from_here() {
    if (!plan.stages.empty()) splits();
    if (static_cast<int>(plan.stages.size()) == problem.job.layers) return;
    for (const int tp : problem.job.tp_degrees) {
      plan.stages.push_back({tp, 0, {}});
      pieces_from(0);
      plan.stages.pop_back();
    }
  }

  void pieces_from(std::size_t at) {
    const int tp = plan.stages.back().tp;
    if (at == left.size()) {
      if (!plan.stages.back().pieces.empty()) stages_from_here();
      return;
    }
    pieces_from(at + 1);
    for (std::int16_t gpus = static_cast<std::int16_t>(tp); gpus <= left[at].gpus;
         gpus = static_cast<std::int16_t>(gpus + tp)) {
      plan.stages.back().pieces.push_back({left[at].node, left[at].type, gpus});
      left[at].gpus = static_cast<std::int16_t>(left[at].gpus - gpus);
      pieces_from(at + 1);
      left[at].gpus = static_cast<std::int16_t>(left[at].gpus + gpus);
      plan.stages.back().pieces.pop_back();
    }
  }

  void splits() {
    std::vector<int> split;
    for (plan.micro_batches = 1; plan.micro_batches <= problem.job.global_batch; ++plan.micro_batches) {
      if (problem.job.global_batch % plan.micro_batches != 0) continue;
      for_splits(static_cast<int>(plan.stages.size()), problem.job.layers, split, [&] {
        for (std::size_t s = 0; s < split.size(); ++s) plan.stages[s].layers = split[s];
        best = std::min(best, plain_time(problem, plan));
      });
    }
  }
};

}  // namespace

TinyCase tiny_case(std::mt19937& random, int most_gpus, int most_layers) {
  TinyCase result;
  result.hardware = tiny_hardware(random);
  result.job = tiny_job(random, most_layers);
  result.bounds = tiny_bounds(random, result.job);
  const bool mixed_types = pick(random, 5) < 2, mixed_kinds = pick(random, 3) == 0, racks = pick(random, 3) == 0;
  int gpus = 2 + pick(random, most_gpus - 1);
  for (int node = 0; gpus > 0; ++node) {
    std::vector<std::string> path;
    if (racks) path = {"core", "leaf" + std::to_string(pick(random, 3))};
    if (racks && pick(random, 4) == 0) path = {"core", "far", "leaf"};
    result.topology.add_node("n" + std::to_string(node), mixed_kinds ? pick(random, 2) : 0, {}, path);
    for (std::int16_t type = 0; type < 2; ++type) {
      const int here = std::min(gpus, mixed_types ? pick(random, 4) : type == 0 ? 1 + pick(random, 4) : 0);
      if (here == 0) continue;
      result.available.push_back({node, type, static_cast<std::int16_t>(here)});
      gpus -= here;
    }
  }
  if (pick(random, 8) == 0) result.bounds.lead_node = pick(random, result.topology.nodes());
  return result;
}

double plain_time(const Problem& problem, const PlanSketch& plan) {
  const JobCoefficients& job = problem.job;
  const PlanBounds& bounds = problem.bounds;
  if (bounds.fixed_micro_batches > 0 && plan.micro_batches != bounds.fixed_micro_batches) return kNever;
  if (plan.gpus() < bounds.min_gpus || plan.gpus() > bounds.max_gpus) return kNever;
  const int count = static_cast<int>(plan.stages.size());
  std::vector<StageTime> times;
  int degree = 0;
  for (int s = 0; s < count; ++s) {
    const StageSketch& stage = plan.stages[static_cast<std::size_t>(s)];
    const StageShape shape = stage_shape(problem, stage.pieces, {}, stage.tp);
    for (const Piece& piece : stage.pieces)
      if (!bounds.allows_type(piece.type)) return kNever;
    if (s == 0 && bounds.lead_node >= 0 && std::none_of(stage.pieces.begin(), stage.pieces.end(), [&](const Piece& p) {
          return p.node == bounds.lead_node;
        }))
      return kNever;
    if (shape.replicas == 0 || (bounds.fixed_tp > 0 && stage.tp != bounds.fixed_tp)) return kNever;
    if (bounds.fixed_dp > 0 && shape.replicas != bounds.fixed_dp) return kNever;
    if (bounds.fixed_pp > 0 && count != bounds.fixed_pp) return kNever;
    if (bounds.uniform_dp && s > 0 && shape.replicas != degree) return kNever;
    degree = shape.replicas;
    const Shares shares =
        balance_shares(problem.hardware, job, shape, job.global_batch / plan.micro_batches, bounds.equal_shares);
    if (!shares.feasible) return kNever;
    for (int c = 0; c < shape.class_count; ++c) {
      const auto at = static_cast<std::size_t>(c);
      const double peak =
          peak_memory(job, stage.layers, shares.most[at], stage.tp, shape.replicas, {s, count, plan.micro_batches})
              .peak;
      if (peak > problem.hardware.memory_share *
                     problem.hardware.types[static_cast<std::size_t>(shape.classes[at].type)].memory_bytes)
        return kNever;
    }
    const StageRates rates = stage_rates(problem.hardware, job, shape, shares);
    times.push_back(stage_time(job, rates, stage.layers, s == 0, s + 1 == count));
  }
  return printed_iteration(times, plan.micro_batches);
}

double best_of_all(const Problem& problem, const std::vector<Piece>& available) {
  AllPlans plans{problem, available, {}};
  plans.stages_from_here();
  return plans.best;
}

std::string fault(const Problem& problem, const std::vector<Piece>& available, const PlanSketch& plan) {
  std::map<std::pair<int, int>, int> left;
  for (const Piece& piece : available) left[{piece.node, piece.type}] += piece.gpus;
  int layers = 0;
  for (const StageSketch& stage : plan.stages) {
    layers += stage.layers;
    if (stage.layers < 1) return "a stage without layers";
    for (std::size_t p = 0; p < stage.pieces.size(); ++p) {
      const Piece& piece = stage.pieces[p];
      if (piece.gpus < 1 || piece.gpus % stage.tp != 0) return "a piece that is no whole number of replicas";
      if ((left[{piece.node, piece.type}] -= piece.gpus) < 0) return "more GPUs than a node has";
      if (p > 0 && std::pair(stage.pieces[p - 1].node, stage.pieces[p - 1].type) >= std::pair(piece.node, piece.type))
        return "pieces that are not sorted";
    }
  }
  if (layers != problem.job.layers) return "not all layers";
  return plain_time(problem, plan) < kNever ? "" : "a plan that the bounds or the memory forbid";
}

}  // namespace espalier::test
