#include "planner/core/solver/seeds.hpp"

#include <algorithm>
#include <tuple>

#include "planner/core/solver/solution.hpp"

namespace espalier {
namespace {

constexpr std::size_t kMostKnown = 1024;

// TP groups of one node and type, ordered such that a contiguous run makes a good stage.
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

// More than 16 stages are tried only if their number divides the groups, so that all stages look
// alike. The search covers the other PP degrees.
bool worth_trying(int stages, int groups) { return stages <= 16 || groups % stages == 0; }

// Joins groups into pieces. Groups of one node and type are neighbours in `run`.
void collect(std::span<const Piece> run, std::vector<Piece>& pieces) {
  pieces.clear();
  for (const Piece& group : run) {
    if (!pieces.empty() && pieces.back().node == group.node && pieces.back().type == group.type)
      pieces.back().gpus = static_cast<std::int16_t>(pieces.back().gpus + group.gpus);
    else pieces.push_back(group);
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return std::tuple(a.node, a.type) < std::tuple(b.node, b.type); });
}

// The fastest few tilings below a bound. Most stages of a tiling are equal and share a table. A
// tiling that cannot be among the fastest is dropped as soon as that is known.
class Tilings {
 public:
  Tilings(Evaluator& evaluator, int count, double bound)
      : evaluator_(evaluator), count_(static_cast<std::size_t>(count)), bound_(bound) {}

  // Deals `groups` of `tp` GPUs to `pp` stages in order.
  void consider(std::span<const Piece> groups, int tp, int pp) {
    const auto run = [&](int s) {
      const auto from = static_cast<std::size_t>(static_cast<long>(groups.size()) * s / pp);
      const auto to = static_cast<std::size_t>(static_cast<long>(groups.size()) * (s + 1) / pp);
      return groups.subspan(from, to - from);
    };
    tables_.clear();
    which_.clear();
    for (int s = 0; s < pp; ++s) {
      collect(run(s), pieces_);
      const StageShape shape = stage_shape(evaluator_.problem(), pieces_, {}, tp);
      if (tables_.empty() || !(tables_.back().shape == shape)) tables_.push_back(evaluator_.table(shape));
      which_.push_back(tables_.size() - 1);
    }
    stages_.clear();
    for (const std::size_t table : which_) stages_.push_back(&tables_[table]);
    layers_.resize(stages_.size());
    const Score score = evaluator_.score(stages_, bound(), {}, layers_);
    if (!score.feasible()) return;
    PlanSketch sketch;
    sketch.form = score.form;
    sketch.micro_batches = evaluator_.micro_batch_counts()[static_cast<std::size_t>(score.choice)];
    for (int s = 0; s < pp; ++s) {
      StageSketch& stage = sketch.stages.emplace_back(StageSketch{tp, layers_[static_cast<std::size_t>(s)], {}});
      collect(run(s), stage.pieces);
    }
    const auto at = std::upper_bound(best_.begin(), best_.end(), score.ms,
                                     [](double ms, const Solution& known) { return ms < known.ms; });
    best_.insert(at, {std::move(sketch), score.ms});
    if (best_.size() > count_) best_.pop_back();
  }

  // Tilings that are not faster are of no use.
  double bound() const { return best_.size() < count_ ? bound_ : best_.back().ms; }
  std::vector<Solution> take() { return std::move(best_); }

 private:
  Evaluator& evaluator_;
  const std::size_t count_;
  const double bound_;
  std::vector<Solution> best_;  // fastest first
  std::vector<Piece> pieces_;
  std::vector<std::size_t> which_;  // index of the table, by stage
  std::vector<StageTable> tables_;
  std::vector<const StageTable*> stages_;
  std::vector<int> layers_;
};

// Lower bound of the time of a tiling by TP groups of `tp` GPUs: computation alone, at the share
// where a sample takes least time, with no loss from rounding.
class LeastTime {
 public:
  LeastTime(Evaluator& evaluator, std::span<const Piece> available, int tp) : evaluator_(evaluator) {
    const Problem& problem = evaluator.problem();
    int type = -1, kind = -1;  // of the previous piece; neighbours are mostly alike
    for (const Piece& piece : available) {
      if (piece.gpus < tp || (piece.type == type && problem.topology.kind(piece.node) == kind)) continue;
      type = piece.type, kind = problem.topology.kind(piece.node);
      const Piece group{piece.node, piece.type, static_cast<std::int16_t>(tp)};
      const StageTable alone = evaluator.table(stage_shape(problem, std::span(&group, 1), {}, tp));
      const StageAt& at = evaluator.at(alone, 0);
      if (at.rates.feasible) sample_ = std::min(sample_, (at.rates.fwd + at.rates.bwd) / micro_batch(0));
    }
  }

  // For `groups` groups, however they are dealt.
  double of(int groups) const {
    const JobCoefficients& job = evaluator_.problem().job;
    return job.layers * sample_ * job.global_batch / groups * (1 - 1e-9);
  }
  // For `groups` groups dealt to stages of at most `most` groups.
  double of(int groups, int most) const {
    const auto& counts = evaluator_.micro_batch_counts();
    double least = kInfeasible;
    for (std::size_t choice = 0; choice < counts.size(); ++choice) {
      const double samples = micro_batch(choice);
      if (samples < most) break;
      const double fill = evaluator_.least_fill();
      least = std::min(least, fill * samples / most + (counts[choice] - fill) * samples / groups);
    }
    return evaluator_.problem().job.layers * sample_ * least * (1 - 1e-9);
  }

 private:
  double micro_batch(std::size_t choice) const {
    return evaluator_.problem().job.global_batch / evaluator_.micro_batch_counts()[choice];
  }
  Evaluator& evaluator_;
  double sample_ = kInfeasible;  // ms per layer, forward and backward
};

std::vector<Solution> tile(Evaluator& evaluator, std::span<const Piece> available, int count, double bound) {
  Tilings seeds(evaluator, count, bound);
  bool mixed = false;
  for (const Piece& piece : available) mixed = mixed || piece.type != available.front().type;
  for (const int tp : evaluator.tp_degrees()) {
    const LeastTime least(evaluator, available, tp);
    int whole = 0;  // groups if all GPUs were allowed
    for (const Piece& piece : available) whole += piece.gpus / tp;
    if (whole == 0 || least.of(whole) >= seeds.bound()) continue;
    for (int direction = 0; direction < (mixed ? 2 : 1); ++direction) {
      const auto order = groups(evaluator, available, tp, direction == 0);
      const int total = static_cast<int>(order.size());
      const int deepest = std::min({total, evaluator.problem().job.layers, kMaxStages});
      for (int pp = 1; pp <= deepest; ++pp) {
        const PlanBounds& bounds = evaluator.problem().bounds;
        if (bounds.fixed_pp > 0 ? pp != bounds.fixed_pp : !worth_trying(pp, total) && bounds.fixed_dp == 0) continue;
        // If all stages need the same DP degree, the remainder stays idle.
        const int dp = bounds.fixed_dp > 0 ? bounds.fixed_dp : total / pp;
        const int used = bounds.fixed_dp > 0 || bounds.uniform_dp ? dp * pp : total;
        if (used > total) break;
        if (least.of(used, (used + pp - 1) / pp) >= seeds.bound()) continue;
        seeds.consider(std::span(order).first(static_cast<std::size_t>(used)), tp, pp);
      }
    }
  }
  return seeds.take();
}

}  // namespace

std::vector<WorkingPlan> symmetric_seeds(Evaluator& evaluator, std::span<const Piece> available, int count,
                                         double bound) {
  if (count <= 0) return {};
  KnownTilings& known = evaluator.known_tilings();
  std::pair key(std::vector<Piece>(available.begin(), available.end()), count);
  auto found = known.find(key);
  if (found == known.end() || found->second.bound < bound) {
    if (known.size() >= kMostKnown) known.clear();
    found = known.insert_or_assign(std::move(key), Tiled{bound, tile(evaluator, available, count, bound)}).first;
  }
  std::vector<WorkingPlan> plans;
  for (const Solution& tiling : found->second.best)
    if (tiling.ms < bound) plans.push_back(working_plan(evaluator, tiling.sketch, true));
  return plans;
}

}  // namespace espalier
