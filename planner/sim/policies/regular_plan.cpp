#include "planner/sim/policies/regular_plan.hpp"

namespace espalier::sim {
namespace {

// One piece for every TP group, in the order of `gpus`. Empty: a node's GPUs are no multiple of
// `tp`.
std::vector<Piece> groups_of(std::span<const Piece> gpus, int tp) {
  std::vector<Piece> groups;
  for (const Piece& piece : gpus) {
    if (piece.gpus % tp != 0) return {};
    for (int left = piece.gpus; left > 0; left -= tp)
      groups.push_back({piece.node, piece.type, static_cast<std::int16_t>(tp)});
  }
  return groups;
}

PlanSketch deal(const Degrees& degrees, int layers, const std::vector<Piece>& groups) {
  PlanSketch sketch;
  std::size_t next = 0;
  for (int s = 0; s < degrees.pp; ++s) {
    StageSketch stage{degrees.tp, layers / degrees.pp + (s < layers % degrees.pp ? 1 : 0), {}};
    for (int j = 0; j < degrees.dp; ++j, ++next) {
      if (!stage.pieces.empty() && stage.pieces.back().node == groups[next].node &&
          stage.pieces.back().type == groups[next].type)
        stage.pieces.back().gpus = static_cast<std::int16_t>(stage.pieces.back().gpus + degrees.tp);
      else stage.pieces.push_back(groups[next]);
    }
    sketch.stages.push_back(std::move(stage));
  }
  return sketch;
}

}  // namespace

std::optional<RegularPlan> regular_plan(Evaluator& evaluator, const Degrees& degrees, std::span<const Piece> gpus) {
  const Problem& problem = evaluator.problem();
  if (degrees.pp > problem.job.layers || degrees.pp > kMaxStages || degrees.gpus() != count_gpus(gpus)) return {};
  const auto groups = groups_of(gpus, degrees.tp);
  if (groups.empty()) return {};
  RegularPlan best{deal(degrees, problem.job.layers, groups), kInfeasible};
  std::vector<StageTable> tables;
  std::vector<const StageTable*> stages;
  std::vector<int> layers;
  tables.reserve(best.sketch.stages.size());
  for (const StageSketch& stage : best.sketch.stages) {
    tables.push_back(evaluator.table(stage_shape(problem, stage.pieces, {}, stage.tp)));
    stages.push_back(&tables.back());
    layers.push_back(stage.layers);
  }
  const auto& counts = evaluator.micro_batch_counts();
  for (int choice = 0; choice < static_cast<int>(counts.size()); ++choice) {
    if (evaluator.score_layers(stages, choice, layers) >= kInfeasible) continue;
    const double ms = evaluator.exact(stages, choice, layers);
    if (ms >= best.ms) continue;
    best.ms = ms;
    best.sketch.micro_batches = counts[static_cast<std::size_t>(choice)];
  }
  if (best.ms >= kInfeasible || !evaluator.allowed(best.sketch)) return {};
  return best;
}

std::vector<Degrees> even_degrees(const JobCoefficients& job, int most) {
  std::vector<Degrees> all;
  for (const int tp : job.tp_degrees)
    for (int pp = 1; pp <= job.layers && pp <= kMaxStages && pp * tp <= most; ++pp) {
      if (job.layers % pp != 0) continue;
      for (int dp = 1; dp <= job.global_batch && pp * dp * tp <= most; ++dp)
        if (job.global_batch % dp == 0) all.push_back({pp, dp, tp});
    }
  return all;
}

std::optional<RegularPlan> fastest_even_plan(Evaluator& evaluator, std::span<const Piece> gpus) {
  std::optional<RegularPlan> best;
  const int count = count_gpus(gpus);
  for (const Degrees& degrees : even_degrees(evaluator.problem().job, count)) {
    if (degrees.gpus() != count) continue;
    auto plan = regular_plan(evaluator, degrees, gpus);
    if (plan && (!best || plan->ms < best->ms)) best = std::move(plan);
  }
  return best;
}

}  // namespace espalier::sim
