// Coefficients of a job without a profile, from its model's shape and its step time on the present
// plan.
#pragma once

#include "planner/core/job.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// Sizes come from the model's shape (model_sizes.hpp; an unknown family counts as GPT-2).
// k_backward = 2, no overlap, and k_comp such that the present plan takes its measured step time.
// All values are marked as assumed. Needs job.plan.
JobCoefficients assumed_for(const ElasticJob& job, const Site& site);

// Coefficients of a job that does not run yet: sizes as above, times from the GPUs' data sheets.
// Does not use job.plan.
JobCoefficients sheet_for(const ElasticJob& job, const Site& site);

}  // namespace espalier
