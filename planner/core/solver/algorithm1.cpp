#include "planner/core/solver/algorithm1.hpp"

#include <algorithm>

namespace espalier {
namespace {

// The best expansion so far, by where it happens; built only when it has won.
struct Winner {
  Score score;
  std::size_t stage = 0;  // changed, or the position of the new one
  int tp = 0;
  bool inserted = false;
};

class Expansion {
 public:
  Expansion(Evaluator& evaluator, const ExpandOptions& options) : evaluator_(evaluator), options_(options) {}

  Winner best(const WorkingPlan& base, std::span<const Piece> added, double bound) {
    Winner winner;
    winner.score.ms = bound;
    only_ = options_.keep_n_b ? base.choice : -1;
    new_stages(base, added, winner);
    changed_stages(base, added, winner);
    return winner;
  }

 private:
  void consider(const CandidateStages& stages, Winner& winner, std::size_t stage, int tp, bool inserted) {
    const Score score = evaluator_.score(stages.view(), winner.score.ms, only_);
    if (score.feasible() && score.ms < winner.score.ms) winner = {score, stage, tp, inserted};
  }

  void new_stages(const WorkingPlan& base, std::span<const Piece> added, Winner& winner) {
    for (const int tp : evaluator_.tp_degrees()) {
      const StageShape shape = stage_shape(evaluator_.problem(), added, {}, tp);
      if (shape.replicas == 0) continue;
      evaluator_.fill(scratch_, shape);
      const std::size_t count = base.tables.size();
      for (std::size_t at = options_.any_position ? 0 : count; at <= count; ++at) {
        stages_.assign(base.tables);
        if (stages_.insert(at, scratch_)) consider(stages_, winner, at, tp, true);
      }
    }
  }

  void changed_stages(const WorkingPlan& base, std::span<const Piece> added, Winner& winner) {
    for (std::size_t s = 0; s < base.tables.size(); ++s)
      for (const int tp : evaluator_.tp_degrees()) {
        const StageShape shape = stage_shape(evaluator_.problem(), base.sketch.stages[s].pieces, added, tp);
        if (shape.replicas == 0) continue;
        evaluator_.fill(scratch_, shape);
        stages_.assign(base.tables);
        stages_.replace(s, scratch_);
        consider(stages_, winner, s, tp, false);
      }
  }

  Evaluator& evaluator_;
  const ExpandOptions options_;
  StageTable scratch_;
  CandidateStages stages_;
  int only_ = -1;
};

WorkingPlan build(Evaluator& evaluator, const WorkingPlan& base, std::span<const Piece> added, const Winner& winner) {
  WorkingPlan plan;
  if (!winner.score.feasible()) return plan;
  plan.sketch = base.sketch;
  plan.tables = base.tables;
  const auto at = static_cast<std::ptrdiff_t>(winner.stage);
  if (winner.inserted) {
    plan.sketch.stages.insert(plan.sketch.stages.begin() + at, {winner.tp, 0, {added.begin(), added.end()}});
    plan.tables.insert(plan.tables.begin() + at, StageTable{});
  } else {
    StageSketch& stage = plan.sketch.stages[winner.stage];
    stage.pieces = merge_pieces(stage.pieces, added);
    stage.tp = winner.tp;
  }
  evaluator.fill(plan.tables[winner.stage],
                 stage_shape(evaluator.problem(), plan.sketch.stages[winner.stage].pieces, {}, winner.tp));
  CandidateStages stages;
  stages.assign(plan.tables);
  std::vector<int> layers(plan.tables.size());
  const Score score = evaluator.score(stages.view(), kInfeasible, winner.score.choice, layers);
  plan.ms = score.ms;
  plan.choice = score.choice;
  plan.sketch.micro_batches = evaluator.micro_batch_counts()[static_cast<std::size_t>(score.choice)];
  for (std::size_t s = 0; s < layers.size(); ++s) plan.sketch.stages[s].layers = layers[s];
  return plan;
}

}  // namespace

WorkingPlan expand_and_balance(Evaluator& evaluator, const WorkingPlan& base, std::span<const Piece> added,
                               const ExpandOptions& options, double bound) {
  Expansion expansion(evaluator, options);
  return build(evaluator, base, added, expansion.best(base, added, bound));
}

std::vector<PrefixPlan> expand_prefixes(Evaluator& evaluator, const WorkingPlan& present, std::span<const Piece> units,
                                        const ExpandOptions& options, std::vector<PrefixPlan> known) {
  std::vector<PrefixPlan> prefixes = std::move(known);
  if (prefixes.empty()) prefixes.push_back({0, present});
  prefixes.reserve(units.size() + 1);
  Expansion expansion(evaluator, options);
  const int room = evaluator.problem().bounds.max_gpus - present.sketch.gpus();
  for (std::size_t i = prefixes.size(); i <= units.size(); ++i) {
    PrefixPlan next{prefixes[i - 1].gpus + units[i - 1].gpus, {}};
    if (next.gpus > room) break;
    Winner winner;
    std::size_t from = 0;
    std::vector<Piece> added, winning;
    const std::size_t window = static_cast<std::size_t>(std::max(1, options.window));
    // From the closest predecessor on: the set of added GPUs grows by one unit at a time.
    for (std::size_t j = i; j >= 1 && i - j < window; --j) {
      added = merge_pieces(added, std::span(units).subspan(j - 1, 1));
      const WorkingPlan& base = prefixes[j - 1].plan;
      if (!base.feasible()) continue;
      const Winner best = expansion.best(base, added, winner.score.ms);
      if (!best.score.feasible()) continue;
      winner = best;
      from = j - 1;
      winning = added;
    }
    if (winner.score.feasible()) next.plan = build(evaluator, prefixes[from].plan, winning, winner);
    prefixes.push_back(std::move(next));
  }
  return prefixes;
}

}  // namespace espalier
