#include "planner/core/solver/algorithm1.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "planner/core/solver/thinning.hpp"

namespace espalier {
namespace {

// The best expansion so far: the changed or new stage and its TP degree. Only the winner becomes a
// plan.
struct Winner {
  Score score;
  std::size_t stage = 0;  // the changed stage, or the position of the new stage
  int tp = 0;
  bool inserted = false;
};

// Pipelines with more stages mostly repeat equal stages. In a run of equal stages a change is tried
// only on the last one, where gradient synchronization is hidden best and memory is widest.
// Shallower pipelines are tried as printed.
constexpr std::size_t kDeep = 8;

class Expansion {
 public:
  Expansion(Evaluator& evaluator, const ExpandOptions& options) : evaluator_(evaluator), options_(options) {}

  Winner best(const WorkingPlan& base, std::span<const Piece> added, double bound) {
    Winner winner;
    winner.score.ms = bound;
    sum_up(base);
    changed_stages(base, added, winner);
    new_stages(base, added, winner);
    return winner;
  }

 private:
  // Lower bound of a candidate's time at one N_b, before any of its stages is computed: stage
  // speeds add up, and the cheapest stage takes all layers of the first micro-batch.
  struct Sum {
    int choice = 0;
    double inverse = 0;   // sum of 1 / cost
    double cheapest = 0;  // least cost
  };

  // The base's N_b comes first, because it most likely sets a bound that ends the others early. Its
  // neighbours follow. More of them have larger micro-batches, because additional replicas need
  // larger micro-batches. Only the winner is scored with all N_b (build).
  void sum_up(const WorkingPlan& base) {
    sums_.clear();
    add_sum(base, base.choice);
    if (options_.keep_n_b) return;
    const int count = static_cast<int>(evaluator_.micro_batch_counts().size());
    for (const int step : {-1, 1, -2, -3})
      if (const int choice = base.choice + step; choice >= 0 && choice < count) add_sum(base, choice);
  }

  void add_sum(const WorkingPlan& base, int choice) {
    Sum sum{choice, 0, kInfeasible};
    for (const StageTable& table : base.tables) {
      const StageAt& at = evaluator_.at(table, choice);
      // The infeasible stage may be the stage that changes, and may become feasible. So there is no
      // bound.
      if (!at.rates.feasible) {
        sum.inverse = kInfeasible;
        sum.cheapest = 0;
        break;
      }
      sum.inverse += at.inverse;
      sum.cheapest = std::min(sum.cheapest, at.rates.fwd + at.rates.bwd);
    }
    sums_.push_back(sum);
  }

  // Sets choices_ to the N_b at which `stage` could beat `bound` if it replaces `was`. nullptr:
  // `stage` is added and replaces nothing.
  bool promising(const StageTable& stage, const StageTable* was, double bound) {
    choices_.clear();
    const int layers = evaluator_.problem().job.layers;
    for (const Sum& sum : sums_) {
      const int micro_batches = evaluator_.micro_batch_counts()[static_cast<std::size_t>(sum.choice)];
      const StageAt& now = evaluator_.at(stage, sum.choice);
      if (!now.rates.feasible) continue;
      const double gone = was != nullptr ? evaluator_.at(*was, sum.choice).inverse : 0;
      const double inverse = sum.inverse - gone + now.inverse;
      const double cheapest = std::min(sum.cheapest, now.rates.fwd + now.rates.bwd);
      const double fill = evaluator_.least_fill();
      if (layers * (fill * cheapest + (micro_batches - fill) / inverse) < bound) choices_.push_back(sum.choice);
    }
    return !choices_.empty();
  }

  void consider(Winner& winner, std::size_t stage, int tp, bool inserted) {
    const Score score = evaluator_.score(stages_.view(), winner.score.ms, choices_);
    if (score.feasible() && score.ms < winner.score.ms) winner = {score, stage, tp, inserted};
  }

  void new_stages(const WorkingPlan& base, std::span<const Piece> added, Winner& winner) {
    for (const int tp : evaluator_.tp_degrees()) {
      const StageShape shape = stage_shape(evaluator_.problem(), added, {}, tp);
      if (shape.replicas == 0) continue;
      evaluator_.start(scratch_, shape);
      const std::size_t count = base.tables.size();
      // From the end, because the paper appends the new stage there.
      for (std::size_t at = count + 1; at-- > (options_.any_position ? 0 : count);) {
        if (!promising(scratch_, nullptr, winner.score.ms)) break;
        if (count > kDeep && at > 0 && at < count && base.tables[at - 1].shape == base.tables[at].shape) continue;
        stages_.assign(base.tables);
        if (stages_.insert(at, scratch_)) consider(winner, at, tp, true);
      }
    }
  }

  void changed_stages(const WorkingPlan& base, std::span<const Piece> added, Winner& winner) {
    for (std::size_t s = 0; s < base.tables.size(); ++s) {
      merge_pieces(base.sketch.stages[s].pieces, added, merged_);
      int common = 0;
      for (const Piece& piece : merged_) common = std::gcd(common, static_cast<int>(piece.gpus));
      for (const int tp : evaluator_.tp_degrees()) {
        const int now = base.sketch.stages[s].tp;
        if (common % tp != 0 || (options_.near_tp && !near(now, tp))) continue;
        const StageShape shape = stage_shape(evaluator_.problem(), merged_, {}, tp);
        if (shape.replicas == 0 || repeated(base, added, s, shape)) continue;
        evaluator_.start(scratch_, shape);
        if (!promising(scratch_, &base.tables[s], winner.score.ms)) continue;
        stages_.assign(base.tables);
        stages_.replace(s, scratch_);
        consider(winner, s, tp, false);
      }
    }
  }

  // Whether one degree is at most twice the other, or the job allows no degree between them.
  bool near(int now, int tp) const {
    if (tp <= 2 * now && now <= 2 * tp) return true;
    return std::none_of(
        evaluator_.tp_degrees().begin(), evaluator_.tp_degrees().end(),
        [low = std::min(now, tp), high = std::max(now, tp)](int one) { return one > low && one < high; });
  }

  // True: the next stage is equal, and the change would make it the same shape.
  bool repeated(const WorkingPlan& base, std::span<const Piece> added, std::size_t s, const StageShape& shape) const {
    if (base.tables.size() <= kDeep || s + 1 == base.tables.size()) return false;
    if (base.sketch.stages[s].tp != base.sketch.stages[s + 1].tp) return false;
    if (!(base.tables[s].shape == base.tables[s + 1].shape)) return false;
    return stage_shape(evaluator_.problem(), base.sketch.stages[s + 1].pieces, added, shape.tp) == shape;
  }

  Evaluator& evaluator_;
  const ExpandOptions options_;
  StageTable scratch_;
  CandidateStages stages_;
  std::vector<Piece> merged_;
  std::vector<Sum> sums_;
  std::vector<int> choices_;
};

WorkingPlan build(Evaluator& evaluator, const WorkingPlan& base, std::span<const Piece> added, const Winner& winner,
                  bool keep_n_b) {
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
  evaluator.start(plan.tables[winner.stage],
                  stage_shape(evaluator.problem(), plan.sketch.stages[winner.stage].pieces, {}, winner.tp));
  CandidateStages stages;
  stages.assign(plan.tables);
  std::vector<int> layers(plan.tables.size());
  const Score score = evaluator.score(stages.view(), kInfeasible,
                                      keep_n_b ? std::span(&winner.score.choice, 1) : std::span<const int>(), layers);
  plan.ms = score.ms;
  plan.choice = score.choice;
  plan.sketch.form = score.form;
  plan.sketch.micro_batches = evaluator.micro_batch_counts()[static_cast<std::size_t>(score.choice)];
  for (std::size_t s = 0; s < layers.size(); ++s) plan.sketch.stages[s].layers = layers[s];
  return plan;
}

}  // namespace

WorkingPlan expand_and_balance(Evaluator& evaluator, const WorkingPlan& base, std::span<const Piece> added,
                               const ExpandOptions& options, double bound) {
  Expansion expansion(evaluator, options);
  return build(evaluator, base, added, expansion.best(base, added, bound), options.keep_n_b);
}

std::vector<PrefixPlan> expand_prefixes(Evaluator& evaluator, const WorkingPlan& present, std::span<const Piece> units,
                                        const ExpandOptions& options, std::vector<PrefixPlan> known) {
  std::vector<PrefixPlan> prefixes = std::move(known);
  if (prefixes.empty()) prefixes.push_back({0, present});
  const bool thinned = options.thinned && units.size() > kWhole;
  const auto wanted = [&](std::size_t i) { return !thinned || looked_at(i); };
  prefixes.reserve(units.size() + 1);
  Expansion expansion(evaluator, options);
  const int room = evaluator.problem().bounds.max_gpus - present.sketch.gpus();
  // A known row may have been thinned for other places: when it was longer, or before its first units were taken. What
  // is looked at now may lead to later ones, too.
  bool more = false;
  for (std::size_t i = 1; i <= units.size(); ++i) {
    if (i < prefixes.size()) {
      more = more || (prefixes[i].left_out && wanted(i));
      if (!more || prefixes[i].plan.feasible() || !wanted(i)) continue;
    }
    PrefixPlan next{prefixes[i - 1].gpus + units[i - 1].gpus, {}};
    if (next.gpus > room) break;
    if (i == prefixes.size()) prefixes.emplace_back();
    if (!wanted(i)) {
      next.left_out = true;
      prefixes[i] = std::move(next);
      continue;
    }
    Winner winner;
    std::size_t from = 0;
    std::vector<Piece> added, winning;
    const std::size_t window = static_cast<std::size_t>(std::max(1, options.window));
    // Starts with the closest predecessor, so that the set of added GPUs grows by one unit at a
    // time.
    for (std::size_t j = i; j >= 1 && i - j < window; --j) {
      added = merge_pieces(added, std::span(units).subspan(j - 1, 1));
      const WorkingPlan& base = prefixes[j - 1].plan;
      if (!base.feasible() || (thinned && !std::has_single_bit(i - j + 1))) continue;
      const Winner best = expansion.best(base, added, winner.score.ms);
      if (!best.score.feasible()) continue;
      winner = best;
      from = j - 1;
      winning = added;
    }
    if (winner.score.feasible()) next.plan = build(evaluator, prefixes[from].plan, winning, winner, options.keep_n_b);
    prefixes[i] = std::move(next);
  }
  return prefixes;
}

}  // namespace espalier
