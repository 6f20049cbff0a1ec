// How full a cluster is with what nobody can take back: U of Suika's threshold tau = U^lambda.
#pragma once

#include "planner/core/scheduler.hpp"

namespace espalier {

// Basic demands of all running jobs over all usable GPUs, 0..1; 0 without any.
double intensity(const PlanningInput& input);

}  // namespace espalier
