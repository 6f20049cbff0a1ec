#include "planner/core/grid/grid_plan.hpp"

#include <algorithm>
#include <numeric>

namespace espalier {

std::vector<std::vector<Piece>> stage_pieces(std::span<const int> stage_gpus, std::span<const Piece> gpus) {
  std::vector<std::size_t> order(stage_gpus.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return stage_gpus[a] > stage_gpus[b]; });
  std::vector<std::vector<Piece>> taken(stage_gpus.size());
  std::size_t at = 0;
  int used = 0;  // GPUs of the piece `at` that are taken
  for (const std::size_t stage : order)
    for (int left = stage_gpus[stage]; left > 0 && at < gpus.size();) {
      const int now = std::min(left, gpus[at].gpus - used);
      if (now > 0) taken[stage].push_back({gpus[at].node, gpus[at].type, static_cast<std::int16_t>(now)});
      left -= now;
      used += now;
      if (used == gpus[at].gpus) ++at, used = 0;
    }
  return taken;
}

std::optional<Solution> grid_solution(Evaluator& evaluator, const GridPlan& plan, std::span<const Piece> gpus) {
  std::vector<int> counts, layers;
  for (const GridStage& stage : plan.stages) counts.push_back(stage.gpus), layers.push_back(stage.layers);
  auto pieces = stage_pieces(counts, gpus);
  Solution solution{{}, kInfeasible};
  std::vector<StageTable> tables;
  std::vector<const StageTable*> stages;
  tables.reserve(plan.stages.size());
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StageShape shape = stage_shape(evaluator.problem(), pieces[s], {}, plan.stages[s].tp);
    if (shape.replicas == 0) return std::nullopt;
    tables.push_back(evaluator.table(shape));
    stages.push_back(&tables.back());
    solution.sketch.stages.push_back({plan.stages[s].tp, plan.stages[s].layers, std::move(pieces[s])});
  }
  const auto& choices = evaluator.micro_batch_counts();
  for (int choice = 0; choice < static_cast<int>(choices.size()); ++choice) {
    const double ms = evaluator.score_layers(stages, choice, layers);
    if (ms >= solution.ms) continue;
    solution.ms = ms;
    solution.sketch.micro_batches = choices[static_cast<std::size_t>(choice)];
  }
  if (solution.ms >= kInfeasible || !evaluator.allowed(solution.sketch)) return std::nullopt;
  return solution;
}

}  // namespace espalier
