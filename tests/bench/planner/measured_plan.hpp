// A measured row as a placed plan on a cluster of equal nodes.
#pragma once

#include "tests/bench/planner/measurements.hpp"

namespace espalier::bench {

// A TP group that lies on several nodes is no plan of Espalier's, but a measured one may have it: kind m of the
// hardware (m = 1..8) is for such groups with m GPUs on the weakest of their nodes, kind 0 for all others.
inline constexpr int kKinds = 9;

// Ranks fill the nodes in the placement's order, TP innermost, then DP, then PP (Megatron's order); layers and shares
// as even as integers allow, remainders first.
PlacedPlan place(const Measurement& measurement);

}  // namespace espalier::bench
