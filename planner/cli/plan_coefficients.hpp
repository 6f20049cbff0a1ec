// What `espalier plan` takes a job's coefficients to be, and what of it nobody measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/cli/plan_job_file.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier::cli {

struct PlanCoefficients {
  JobCoefficients job;
  std::vector<bool> measured;              // by GPU type: its speed follows from a measured step
  std::vector<std::string> assumed;        // for a person: a sentence each
  std::optional<std::string> measurement;  // the same of what was measured
};

// `present`: the plan that job.step_seconds was measured on; nothing: computation at job.utilization of each type's
// peak. Throws Error as model_sizes() and place_plan() do.
PlanCoefficients plan_coefficients(const PlanJob& job, const Site& site, const std::optional<Plan>& present);

}  // namespace espalier::cli
