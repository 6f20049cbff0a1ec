// Symmetric 3D plans: PP stages of DP replicas of TP GPUs, with layers as even as integers allow.
// Most baselines are limited to such plans.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planner/core/solver/evaluator.hpp"

namespace espalier::sim {

struct Degrees {
  int pp = 1, dp = 1, tp = 1;
  int gpus() const { return pp * dp * tp; }
  bool operator==(const Degrees&) const = default;
};

struct RegularPlan {
  PlanSketch sketch;
  double ms = 0;  // one iteration, exact recurrence
};

// The plan of `degrees` on exactly these GPUs (sorted pieces) at the fastest N_b that fits into
// memory. TP groups are ordered by node and stages take them in order, so that gradients stay
// inside nodes if possible (Megatron's order). nullopt: a group would span nodes, the number of
// GPUs differs, or nothing fits.
std::optional<RegularPlan> regular_plan(Evaluator& evaluator, const Degrees& degrees, std::span<const Piece> gpus);

// All degrees with at most `most` GPUs that split the model evenly (as Rubick and Megatron: PP
// divides the layers, DP the global batch).
std::vector<Degrees> even_degrees(const JobCoefficients& job, int most);

// The fastest plan of even degrees that takes exactly these GPUs. nullopt: there is none.
std::optional<RegularPlan> fastest_even_plan(Evaluator& evaluator, std::span<const Piece> gpus);

}  // namespace espalier::sim
