// The best plans of a job on ever more GPUs of a cluster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/cli/plan_coefficients.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/topology/affinity_order.hpp"

namespace espalier::cli {

// The GPUs that the job may use, as a job on the first of them would take them. Throws Error that names the job's file
// where none is of an allowed type.
std::vector<GpuAt> plan_gpus(const PlanJob& job, const Site& site);

// The plan that the job's step was measured on. Throws Error that names the job's file.
std::optional<Plan> present_plan(const PlanJob& job, const Site& site, const std::vector<GpuAt>& order);

struct PlannedCount {
  int gpus = 0;              // that it may use
  std::optional<Plan> plan;  // on these or fewer of them; nothing: none is valid
  Prediction prediction;
  bool measured = false;  // on GPU types that were measured only
  std::string why_not;    // what no plan is for, and a remedy
  double seconds() const { return prediction.exact_ms / 1000; }
};

// One for each of `counts` (ascending): the best plan found on the first GPUs of `order`, searched from the one before.
// accuracy=bitwise keeps the TP degree and N_b of `present`, or of the first plan. Throws Error where a count is
// beyond `order` or the job's own limits.
std::vector<PlannedCount> plan_counts(const PlanJob& job, const Site& site, const PlanCoefficients& coefficients,
                                      const std::vector<GpuAt>& order, const std::optional<Plan>& present,
                                      const std::vector<int>& counts);

}  // namespace espalier::cli
