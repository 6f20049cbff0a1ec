// The order in which policies that start jobs themselves take them.
#pragma once

#include <vector>

#include "planner/sim/policy.hpp"

namespace espalier::sim {

// The indices of the view's jobs. Running jobs stand in the order of their submission. In the places of waiting jobs
// stand the waiting jobs in the base queue's order. Where the view does not tell that, all stand as in the view.
std::vector<std::size_t> queue_order(const SimulatedView& view);

}  // namespace espalier::sim
