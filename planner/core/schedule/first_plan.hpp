// The plan of generation 0: the best plan on the GPUs that the job has before it runs.
#pragma once

#include <string>
#include <vector>

#include "planner/core/decision.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// planned: the ranks may stand on the GPUs in any order, and GPUs may stay idle.
// given: the ranks run already, one on each GPU, in the order of the holdings. For a program that
// tells its model's shape only when it runs.
enum class RankOrder { planned, given };

struct FirstPlan {
  Plan plan;
  double ms = 0;                      // predicted iteration time
  std::vector<Candidate> candidates;  // the chosen plan first, then the next best
  std::string remark;                 // one sentence when memory is doubtful; empty: the plan fits
};

// Weighs all uniform plans (PP x DP x TP x micro-batches) and the solver's best uneven plan on the
// GPUs of job.anchor and job.extensions, within the user's limits. Needs job.model; does not use
// job.plan. `coefficients`: by the types of `site`, from profiles or from data sheets.
//
// A plan that needs more memory than a GPU has is never chosen while another fits. If none fits
// only because of activations, whose sizes are estimates before a profile, the plan that needs
// least is chosen, with a remark. Throws Error with the figures if no plan's parameters and
// optimizer state fit, if the user's limits allow no plan, or if the user's plan does not suit.
FirstPlan first_plan(const ElasticJob& job, const Site& site, const JobCoefficients& coefficients, RankOrder order);

}  // namespace espalier
