// Coefficients of a job of which nothing is known but its model's shape and how long a step takes on its present plan.
#pragma once

#include "planner/core/job.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// Sizes from the model's shape (model_sizes.hpp; a family unknown there is taken for GPT-2), k_backward = 2, no
// overlap, k_comp such that the present plan takes its measured step time. All marked as assumed. Needs job.plan.
JobCoefficients assumed_for(const ElasticJob& job, const Site& site);

}  // namespace espalier
