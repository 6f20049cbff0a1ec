// From a plan to the extensions that it needs. Internal to the scheduler.
#pragma once

#include <vector>

#include "planner/core/affinity.hpp"
#include "planner/core/decision.hpp"

namespace espalier {

// Fills `acquire` with one request for each node on which `plan` has GPUs that the job does not hold. These GPUs, and
// the requests' CPUs and memory, leave `supplies`. Returns the number of these GPUs.
int acquire_for(const ElasticJob& job, const Plan& plan, std::vector<Supply>& supplies,
                std::vector<ExtensionRequest>& acquire);

}  // namespace espalier
