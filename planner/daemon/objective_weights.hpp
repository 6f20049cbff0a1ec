// The weights that [objective] of espalier.toml gives a job by its account and its QOS. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/core/schedule/objective.hpp"
#include "planner/daemon/slurm.hpp"

namespace espalier {

struct ObjectiveWeight {
  std::string of;  // "account physics"
  double factor = 1;
};

// Of an account, the nearest that has a weight: itself, the one above it, and so on. Empty: the job has none.
std::vector<ObjectiveWeight> objective_weights(const SlurmJob& anchor, const SlurmSnapshot& slurm,
                                               const Objective& objective);

// "; account physics weighs 2; QOS high weighs 3": for the reason of a decision. Empty: the job has no weight.
std::string weight_reason(const std::vector<ObjectiveWeight>& weights);

}  // namespace espalier
