// FlexTrain's scale table (§4.4, §5.1): what a job would reach on other numbers of GPUs.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planner/core/schedule/flextrain/options.hpp"
#include "planner/core/solver/evaluator.hpp"

namespace espalier {

struct ScaleRow {
  PlanSketch sketch;
  double ms = 0;  // one iteration, exact recurrence
  int gpus() const { return sketch.gpus(); }
};

// The GPUs in the order in which a larger plan takes them, as TP groups: one piece of `tp` GPUs per group. GPUs of a
// node beyond a multiple of `tp` are left out. `pieces` need not be sorted.
std::vector<Piece> tp_groups(std::span<const Piece> pieces, int tp);

// The fastest plan on at least `least` and at most `most` of the groups, the first ones of the order. Stages are
// uniform and take their groups in order; layers are balanced anew (§4.2: what No-Op layers are for). With
// Elasticity::pipeline a stage keeps the replicas of the first stage of `present`, and the plan its N_b; otherwise both
// are chosen. On ties the fewest GPUs. nullopt: no such plan is valid. With very many groups not every number is tried.
std::optional<ScaleRow> fastest_row(Evaluator& evaluator, Elasticity elasticity, const PlanSketch& present,
                                    std::span<const Piece> groups, int least, int most);

}  // namespace espalier
