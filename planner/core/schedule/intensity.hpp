// Share of a cluster that holds basic demands, which nobody can reclaim: U of Suika's threshold tau
// = U^lambda.
#pragma once

#include "planner/core/scheduler.hpp"

namespace espalier {

// Basic demands of all running jobs over all usable GPUs, 0..1. 0 without usable GPUs.
double intensity(const PlanningInput& input);

}  // namespace espalier
