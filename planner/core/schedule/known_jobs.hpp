// What a policy keeps of the running jobs from one decision to the next.
#pragma once

#include <map>
#include <memory>

#include "planner/core/schedule/virtual_job.hpp"
#include "planner/core/scheduler.hpp"

namespace espalier {

using KnownJobs = std::map<JobId, std::unique_ptr<VirtualJob>>;

// The VirtualJob of the last decision, taken out of `known`, where the job poses the same problem as then; else a new
// one, with the coefficients of `input` or assumed ones. nullptr: the job's plan cannot be scored. A launcher may claim
// anything, and what it claims must not prevent planning for other jobs: so this throws nothing for that.
std::unique_ptr<VirtualJob> kept_or_made(KnownJobs& known, const ElasticJob& job, const PlanningInput& input,
                                         const std::shared_ptr<const Site>& site, bool data_parallel_only,
                                         StageBooks& books);

}  // namespace espalier
