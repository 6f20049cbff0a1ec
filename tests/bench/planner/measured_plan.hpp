// Places a measured row as a plan on a cluster of equal nodes.
#pragma once

#include "tests/bench/planner/measurements.hpp"

namespace espalier::bench {

// Espalier makes no plan with a TP group on several nodes, but a measured plan may have one. Kind m
// of the hardware (m = 1..8) is for such groups with m GPUs on their weakest node. Kind 0 is for
// all other groups.
inline constexpr int kKinds = 9;

// Ranks fill the nodes in the placement's order: TP innermost, then DP, then PP (Megatron's order).
// Layers and shares are as even as integers allow; the first ones take the remainders.
PlacedPlan place(const Measurement& measurement);

}  // namespace espalier::bench
