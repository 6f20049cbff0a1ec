// What a plan makes of the GPUs a job holds. Pure.
#pragma once

#include <set>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::launcher {

bool uses(const Plan& plan, const Holding& holding);

// Those that `plan` has no use for: `taken`, and what the plan could not fit in.
std::vector<JobId> leaving(const Plan& plan, const std::vector<Holding>& extensions, const std::set<JobId>& taken);

// `gpus`, and where none of them is on the first node of `own` those of it that are there: no plan does without one,
// and rank 0 is there.
std::vector<GpuId> with_lead(std::vector<GpuId> gpus, const std::vector<Holding>& own);

}  // namespace espalier::launcher
