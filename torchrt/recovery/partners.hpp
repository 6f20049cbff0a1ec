// Who keeps copies of whose state. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/core/plan.hpp"

namespace espalier::torchrt {

// By rank: the rank that keeps a copy of its state, on the next of the plan's nodes, the last before the first; a
// node's ranks spread over those of the next. Where the plan has one node, likewise with those of the next vault in
// place of the next node, since an extension takes its own with it; -1 for all where there is one of both. `owners`: of
// the ranks' vaults.
std::vector<int> snapshot_partners(const Plan& plan, const std::vector<std::string>& owners);

}  // namespace espalier::torchrt
