#include "planner/core/solver/seeds.hpp"

#include <algorithm>
#include <tuple>

#include "planner/core/solver/solution.hpp"

namespace espalier {
namespace {

constexpr std::size_t kMostKnown = 1024;

// TP groups of one node and type, in an order in which a contiguous run makes a good stage.
std::vector<Piece> groups(const Evaluator& evaluator, std::span<const Piece> available, int tp, bool fast_first) {
  std::vector<Piece> order;
  for (const Piece& piece : available)
    if (evaluator.problem().bounds.allows_type(piece.type))
      for (int left = piece.gpus; left >= tp; left -= tp)
        order.push_back({piece.node, piece.type, static_cast<std::int16_t>(tp)});
  const auto comp = [&](const Piece& p) { return evaluator.problem().job.gpu[static_cast<std::size_t>(p.type)].comp; };
  const auto rack = [&](const Piece& p) { return evaluator.problem().topology.rack(p.node); };
  const auto leads = [&](const Piece& p) { return p.node == evaluator.problem().bounds.lead_node; };
  std::stable_sort(order.begin(), order.end(), [&](const Piece& a, const Piece& b) {
    const double speed_a = fast_first ? comp(a) : -comp(a), speed_b = fast_first ? comp(b) : -comp(b);
    return std::tuple(leads(b), speed_a, rack(a), a.node) < std::tuple(leads(a), speed_b, rack(b), b.node);
  });
  const auto most = static_cast<std::size_t>(std::max(0, evaluator.problem().bounds.max_gpus / tp));
  if (order.size() > most) order.resize(most);
  return order;
}

// Stages in which all nodes look alike are worth more than one exact tiling too many: PP degrees beyond these are left
// to the search.
bool worth_trying(int stages, int groups) { return stages <= 16 || groups % stages == 0; }

// Groups of one node and type stand beside each other.
std::vector<Piece> collect(std::span<const Piece> run) {
  std::vector<Piece> pieces;
  for (const Piece& group : run) {
    if (!pieces.empty() && pieces.back().node == group.node && pieces.back().type == group.type)
      pieces.back().gpus = static_cast<std::int16_t>(pieces.back().gpus + group.gpus);
    else pieces.push_back(group);
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return std::tuple(a.node, a.type) < std::tuple(b.node, b.type); });
  return pieces;
}

// The fastest few tilings. Most stages of one are equal: they share a table. What cannot be among the fastest is left
// as soon as that is known.
class Tilings {
 public:
  Tilings(Evaluator& evaluator, int count) : evaluator_(evaluator), count_(static_cast<std::size_t>(count)) {}

  void consider(PlanSketch sketch) {
    shapes_.clear();
    which_.clear();
    for (const StageSketch& stage : sketch.stages) {
      const StageShape shape = stage_shape(evaluator_.problem(), stage.pieces, {}, stage.tp);
      if (shapes_.empty() || !(shapes_.back() == shape)) shapes_.push_back(shape);
      which_.push_back(shapes_.size() - 1);
    }
    if (tables_.size() < shapes_.size()) tables_.resize(shapes_.size());
    for (std::size_t t = 0; t < shapes_.size(); ++t) evaluator_.start(tables_[t], shapes_[t]);
    stages_.clear();
    for (const std::size_t table : which_) stages_.push_back(&tables_[table]);
    layers_.resize(stages_.size());
    const Score score = evaluator_.score(stages_, best_.size() < count_ ? kInfeasible : best_.back().ms, {}, layers_);
    if (!score.feasible()) return;
    sketch.micro_batches = evaluator_.micro_batch_counts()[static_cast<std::size_t>(score.choice)];
    for (std::size_t s = 0; s < layers_.size(); ++s) sketch.stages[s].layers = layers_[s];
    const auto at = std::upper_bound(best_.begin(), best_.end(), score.ms,
                                     [](double ms, const Solution& known) { return ms < known.ms; });
    best_.insert(at, {std::move(sketch), score.ms});
    if (best_.size() > count_) best_.pop_back();
  }

  std::vector<Solution> take() { return std::move(best_); }

 private:
  Evaluator& evaluator_;
  const std::size_t count_;
  std::vector<Solution> best_;  // fastest first
  std::vector<StageShape> shapes_;
  std::vector<std::size_t> which_;  // of the shapes, by stage
  std::vector<StageTable> tables_;
  std::vector<const StageTable*> stages_;
  std::vector<int> layers_;
};

std::vector<Solution> tile(Evaluator& evaluator, std::span<const Piece> available, int count) {
  Tilings seeds(evaluator, count);
  bool mixed = false;
  for (const Piece& piece : available) mixed = mixed || piece.type != available.front().type;
  for (const int tp : evaluator.tp_degrees())
    for (int direction = 0; direction < (mixed ? 2 : 1); ++direction) {
      const auto order = groups(evaluator, available, tp, direction == 0);
      const int total = static_cast<int>(order.size());
      const int deepest = std::min({total, evaluator.problem().job.layers, kMaxStages});
      for (int pp = 1; pp <= deepest; ++pp) {
        const PlanBounds& bounds = evaluator.problem().bounds;
        if (bounds.fixed_pp > 0 ? pp != bounds.fixed_pp : !worth_trying(pp, total) && bounds.fixed_dp == 0) continue;
        // Where all stages need the same DP degree, what does not divide stays idle.
        const int dp = bounds.fixed_dp > 0 ? bounds.fixed_dp : total / pp;
        const int used = bounds.fixed_dp > 0 || bounds.uniform_dp ? dp * pp : total;
        if (used > total) break;
        PlanSketch sketch;
        for (int s = 0; s < pp; ++s) {
          const auto from = static_cast<std::size_t>(static_cast<long>(used) * s / pp);
          const auto to = static_cast<std::size_t>(static_cast<long>(used) * (s + 1) / pp);
          sketch.stages.push_back({tp, 0, collect(std::span(order).subspan(from, to - from))});
        }
        seeds.consider(std::move(sketch));
      }
    }
  return seeds.take();
}

}  // namespace

std::vector<WorkingPlan> symmetric_seeds(Evaluator& evaluator, std::span<const Piece> available, int count) {
  if (count <= 0) return {};
  KnownTilings& known = evaluator.known_tilings();
  std::pair key(std::vector<Piece>(available.begin(), available.end()), count);
  auto found = known.find(key);
  if (found == known.end()) {
    if (known.size() >= kMostKnown) known.clear();
    found = known.emplace(std::move(key), tile(evaluator, available, count)).first;
  }
  std::vector<WorkingPlan> plans;
  for (const Solution& tiling : found->second) plans.push_back(working_plan(evaluator, tiling.sketch, true));
  return plans;
}

}  // namespace espalier
