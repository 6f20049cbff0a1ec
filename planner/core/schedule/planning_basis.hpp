// The part of the planner's knowledge that a launcher needs to plan by itself.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "planner/core/json.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

struct PlanningBasis {
  Site site;  // the nodes that the job has or may get
  // By the types of `site`. Nothing: the job was never profiled.
  std::optional<JobCoefficients> coefficients;
};

// As JSON, with only `nodes` and the types and kinds that they use. The bandwidth matrix inside a
// node is left out.
Json basis_json(const Site& site, const std::set<std::string>& nodes,
                const std::optional<JobCoefficients>& coefficients);

// Throws Error that names the field.
PlanningBasis basis_from(const Json& json);

// The present plan and `next`, with the predicted step time of each, the winner last. Without
// coefficients, or for GPUs that `known` lacks, a predicted time is 0.
std::vector<Candidate> weighed_against(const PlanningBasis& known, const ElasticJob& job, const Plan& next);

}  // namespace espalier
