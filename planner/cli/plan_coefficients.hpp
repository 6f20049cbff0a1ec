// The job coefficients that `espalier plan` uses, and a list of the ones that are only assumed.
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
  std::vector<std::string> assumed;        // for people: one sentence per assumption
  std::optional<std::string> measurement;  // for people: the measurement
  std::vector<std::string> notes;          // for people: what is doubtful of the measurement
};

// `present`: the plan on which job.step_seconds was measured. nullopt: computation reaches
// job.utilization of each type's peak. Throws the Errors of model_sizes() and place_plan(), and an Error
// where the step is shorter than any GPU can compute, or the plan is far too large for its GPUs.
PlanCoefficients plan_coefficients(const PlanJob& job, const Site& site, const std::optional<Plan>& present);

}  // namespace espalier::cli
