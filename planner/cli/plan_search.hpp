// The best plans of a job on increasing numbers of GPUs of a cluster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/cli/plan_coefficients.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/topology/affinity_order.hpp"

namespace espalier::cli {

// The GPUs that the job may use, in the order in which a job on the first of them would take them.
// Throws Error, naming the job's file, when the cluster lacks an allowed type.
std::vector<GpuAt> plan_gpus(const PlanJob& job, const Site& site);

// The plan on which the job's step was measured. Throws Error, naming the job's file.
std::optional<Plan> present_plan(const PlanJob& job, const Site& site, const std::vector<GpuAt>& order);

struct PlannedCount {
  int gpus = 0;              // number of GPUs that it may use
  std::optional<Plan> plan;  // uses at most `gpus` GPUs; nullopt: no plan is valid
  Prediction prediction;
  bool measured = false;  // it uses only GPU types that were measured
  std::string why_not;    // the reason for the lack of a plan, and a remedy
  double seconds() const { return prediction.exact_ms / 1000; }
};

// One result for each of `counts` (ascending): the best plan found on the first GPUs of `order`.
// Each search starts from the previous plan. accuracy=bitwise keeps the TP degree and N_b of
// `present`, or of the first plan. Throws Error when a count is beyond `order` or the job's own
// limits.
std::vector<PlannedCount> plan_counts(const PlanJob& job, const Site& site, const PlanCoefficients& coefficients,
                                      const std::vector<GpuAt>& order, const std::optional<Plan>& present,
                                      const std::vector<int>& counts);

}  // namespace espalier::cli
