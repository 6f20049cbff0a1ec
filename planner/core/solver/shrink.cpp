#include "planner/core/solver/shrink.hpp"

#include <algorithm>
#include <vector>

namespace espalier {
namespace {

// Deals the kept GPUs as whole TP groups to the stages that had them. A stage gets no more GPUs of
// a node than it had.
PlanSketch cut_down(const PlanSketch& present, std::span<const Piece> kept) {
  std::vector<Piece> left(kept.begin(), kept.end());
  PlanSketch sketch;
  sketch.micro_batches = present.micro_batches;
  for (const StageSketch& stage : present.stages) {
    StageSketch next{stage.tp, 0, {}};
    for (const Piece& had : stage.pieces)
      for (Piece& piece : left) {
        if (piece.node != had.node || piece.type != had.type) continue;
        const int taken = std::min(piece.gpus, had.gpus) / stage.tp * stage.tp;
        if (taken > 0) next.pieces.push_back({had.node, had.type, static_cast<std::int16_t>(taken)});
        piece.gpus = static_cast<std::int16_t>(piece.gpus - taken);
      }
    if (!next.pieces.empty()) sketch.stages.push_back(std::move(next));
  }
  return sketch;
}

// Gives every stage the largest TP degree, up to its present one, that divides its remaining GPUs.
PlanSketch regrouped(const Evaluator& evaluator, const PlanSketch& present, std::span<const Piece> kept) {
  std::vector<Piece> left(kept.begin(), kept.end());
  PlanSketch sketch;
  sketch.micro_batches = present.micro_batches;
  for (const StageSketch& stage : present.stages) {
    StageSketch next{stage.tp, 0, {}};
    for (const Piece& had : stage.pieces)
      for (Piece& piece : left) {
        if (piece.node != had.node || piece.type != had.type) continue;
        const auto taken = std::min(piece.gpus, had.gpus);
        if (taken > 0) next.pieces.push_back({had.node, had.type, taken});
        piece.gpus = static_cast<std::int16_t>(piece.gpus - taken);
      }
    if (next.pieces.empty()) continue;
    next.tp = 0;
    for (const int tp : evaluator.tp_degrees())
      if (tp <= stage.tp &&
          std::all_of(next.pieces.begin(), next.pieces.end(), [&](const Piece& p) { return p.gpus % tp == 0; }))
        next.tp = tp;
    if (next.tp > 0) sketch.stages.push_back(std::move(next));
  }
  return sketch;
}

}  // namespace

std::optional<WorkingPlan> shrink_plan(Evaluator& evaluator, const PlanSketch& present, std::span<const Piece> kept,
                                       const SearchEffort& effort) {
  const std::vector<PlanSketch> starts{cut_down(present, kept), regrouped(evaluator, present, kept)};
  const auto found = best_plan(evaluator, kept, starts, effort);
  if (!found) return std::nullopt;
  return working_plan(evaluator, found->sketch, true);
}

}  // namespace espalier
