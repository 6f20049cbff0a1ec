#include "planner/core/solver/working_plan.hpp"

namespace espalier {

WorkingPlan working_plan(Evaluator& evaluator, PlanSketch sketch, bool as_is) {
  WorkingPlan plan;
  plan.sketch = std::move(sketch);
  plan.tables.reserve(plan.sketch.stages.size());
  for (const StageSketch& stage : plan.sketch.stages)
    plan.tables.push_back(evaluator.table(stage_shape(evaluator.problem(), stage.pieces, {}, stage.tp)));
  if (plan.sketch.stages.empty() || plan.sketch.stages.size() > kMaxStages) return plan;
  CandidateStages stages;
  stages.assign(plan.tables);
  std::vector<int> layers;
  for (const StageSketch& stage : plan.sketch.stages) layers.push_back(stage.layers);
  if (as_is) {
    const int choice = evaluator.choice_of(plan.sketch.micro_batches);
    if (choice < 0) return plan;
    plan.ms = evaluator.score_layers(stages.view(), choice, layers, plan.sketch.form);
    if (plan.ms < kInfeasible) plan.choice = choice;
    return plan;
  }
  const Score score = evaluator.score(stages.view(), kInfeasible, {}, layers);
  if (!score.feasible()) return plan;
  plan.ms = score.ms;
  plan.choice = score.choice;
  plan.sketch.form = score.form;
  plan.sketch.micro_batches = evaluator.micro_batch_counts()[static_cast<std::size_t>(score.choice)];
  for (std::size_t s = 0; s < layers.size(); ++s) plan.sketch.stages[s].layers = layers[s];
  return plan;
}

}  // namespace espalier
