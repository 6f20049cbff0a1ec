#include "planner/core/solver/seeds.hpp"

#include <algorithm>
#include <tuple>

namespace espalier {
namespace {

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

std::vector<Piece> collect(std::span<const Piece> run) {
  std::vector<Piece> pieces;
  for (const Piece& group : run) pieces = merge_pieces(pieces, std::span(&group, 1));
  return pieces;
}

}  // namespace

std::vector<WorkingPlan> symmetric_seeds(Evaluator& evaluator, std::span<const Piece> available, int count) {
  std::vector<WorkingPlan> seeds;
  bool mixed = false;
  for (const Piece& piece : available) mixed = mixed || piece.type != available.front().type;
  StageTable scratch;
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
        WorkingPlan plan = working_plan(evaluator, std::move(sketch));
        if (plan.feasible()) seeds.push_back(std::move(plan));
      }
    }
  std::stable_sort(seeds.begin(), seeds.end(), [](const WorkingPlan& a, const WorkingPlan& b) { return a.ms < b.ms; });
  if (seeds.size() > static_cast<std::size_t>(count)) seeds.resize(static_cast<std::size_t>(count));
  return seeds;
}

}  // namespace espalier
