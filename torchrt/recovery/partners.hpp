// Who keeps copies of whose state. Pure.
#pragma once

#include <vector>

#include "planner/core/plan.hpp"

namespace espalier::torchrt {

// By rank: the rank that keeps a copy of its state, on the next of the plan's nodes, the last before the first; a
// node's ranks spread over those of the next. -1 for all where the plan has one node.
std::vector<int> snapshot_partners(const Plan& plan);

}  // namespace espalier::torchrt
