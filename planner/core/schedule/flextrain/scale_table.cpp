#include "planner/core/schedule/flextrain/scale_table.hpp"

#include <algorithm>

namespace espalier {
namespace {

// Numbers of TP groups that are tried for one job. It bounds the time of a decision for jobs of thousands of GPUs.
constexpr int kMostSizes = 64;

// Stages of `replicas` groups each, in order; layers are only a start for the balancing.
PlanSketch uniform(std::span<const Piece> groups, int stages, int replicas, int tp, int layers, int micro_batches) {
  PlanSketch sketch;
  sketch.micro_batches = micro_batches;
  std::size_t next = 0;
  for (int s = 0; s < stages; ++s) {
    StageSketch stage{tp, layers / stages + (s < layers % stages ? 1 : 0), {}};
    for (int r = 0; r < replicas; ++r) stage.pieces = merge_pieces(stage.pieces, groups.subspan(next++, 1));
    sketch.stages.push_back(std::move(stage));
  }
  return sketch;
}

}  // namespace

std::vector<Piece> tp_groups(std::span<const Piece> pieces, int tp) {
  std::vector<Piece> groups;
  for (const Piece& piece : pieces)
    for (int left = piece.gpus; left >= tp; left -= tp)
      groups.push_back({piece.node, piece.type, static_cast<std::int16_t>(tp)});
  return groups;
}

std::optional<ScaleRow> fastest_row(Evaluator& evaluator, Elasticity elasticity, const PlanSketch& present,
                                    std::span<const Piece> groups, int least, int most) {
  const JobCoefficients& job = evaluator.problem().job;
  const int deepest = std::min(job.layers, kMaxStages);
  most = std::min(most, static_cast<int>(groups.size()));
  // The lists of other schedules than 1F1B take long to simulate: rows are compared by their estimates.
  const bool listed = evaluator.least_fill() < 1;
  // Another number of micro-batches sums gradients in another order: with stages alone, losses stay what they are.
  const int only = elasticity == Elasticity::pipeline ? evaluator.choice_of(present.micro_batches) : -1;
  const int replicas = present.stages.front().gpus() / present.stages.front().tp;
  std::optional<ScaleRow> best;
  const auto consider = [&](int stages, int dp) {
    if (stages < 1 || stages > deepest || dp < 1 || dp > job.global_batch) return;
    const int tp = groups.front().gpus;
    ScaleRow row{uniform(groups, stages, dp, tp, job.layers, present.micro_batches), 0};
    if (!evaluator.allowed(row.sketch)) return;
    const Score score = evaluator.balance_sketch(row.sketch, only);
    if (!score.feasible()) return;
    row.ms = listed ? score.ms : evaluator.exact_sketch(row.sketch);
    if (row.ms >= kInfeasible) return;
    if (!best || row.ms < best->ms || (row.ms == best->ms && row.gpus() < best->gpus())) best = std::move(row);
  };
  const int unit = elasticity == Elasticity::pipeline ? std::max(1, replicas) : 1;
  const int step = unit * std::max(1, (most - least) / unit / kMostSizes);
  for (int count = most - most % unit; count >= std::max(1, least); count -= step) {
    if (elasticity == Elasticity::pipeline) consider(count / unit, unit);
    else
      for (int dp = 1; dp <= std::min(count, job.global_batch); ++dp)
        if (count % dp == 0) consider(count / dp, dp);
  }
  if (best && listed) best->ms = evaluator.exact_sketch(best->sketch);
  return best;
}

}  // namespace espalier
