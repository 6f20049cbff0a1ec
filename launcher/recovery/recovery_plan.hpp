// The plan of a generation that goes on after a loss.
#pragma once

#include <optional>
#include <vector>

#include "launcher/recovery/faults.hpp"
#include "planner/core/job.hpp"
#include "planner/core/schedule/planning_basis.hpp"

namespace espalier::launcher {

struct RecoveryPlan {
  Plan plan;
  std::vector<GpuId> chosen;  // by the faults
};

struct GpusForRecovery {
  std::vector<GpuId> left;    // of the lost plan; behind them those that it left idle
  std::vector<Holding> own;   // the anchor's that can be used
  std::vector<GpuId> anchor;  // all of the anchor's
  int least = 0;              // a plan on fewer is of no use
};

// Returns the plan of the lost generation, `lost`, if all of its GPUs are among the chosen ones, else the best plan on
// the chosen GPUs. nullopt: no attempt is left. GPUs on which no plan fits are noted in `faults` as tried.
std::optional<RecoveryPlan> choose_recovery_plan(Faults& faults, Faults::Time now, const Plan& lost,
                                                 const GpusForRecovery& gpus, const ElasticJob& job,
                                                 const PlanningBasis& known);

}  // namespace espalier::launcher
