// Symmetric 3D plans, which most baselines are limited to: PP stages of DP replicas of TP GPUs, layers as even as
// integers allow.
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

// The plan of `degrees` on exactly these GPUs (sorted pieces) at the fastest N_b that fits into memory. TP groups stand
// node by node and stages take them in order, so that gradients stay inside nodes where they can (Megatron's order).
// nullopt: a group would span nodes, the GPUs are not as many, or nothing fits.
std::optional<RegularPlan> regular_plan(Evaluator& evaluator, const Degrees& degrees, std::span<const Piece> gpus);

// All degrees that split the model evenly (Rubick, as Megatron: PP divides the layers, DP the global batch), of at most
// `most` GPUs.
std::vector<Degrees> even_degrees(const JobCoefficients& job, int most);

// The fastest of them that takes exactly these GPUs. nullopt: none can.
std::optional<RegularPlan> fastest_even_plan(Evaluator& evaluator, std::span<const Piece> gpus);

}  // namespace espalier::sim
