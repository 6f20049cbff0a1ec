#include "launcher/recovery/recovery_plan.hpp"

#include <algorithm>
#include <set>

#include "launcher/job/holdings.hpp"
#include "planner/core/scheduler.hpp"

namespace espalier::launcher {

std::optional<RecoveryPlan> choose_recovery_plan(Faults& faults, Faults::Time now, const Plan& lost,
                                                 const GpusForRecovery& gpus, const ElasticJob& job,
                                                 const PlanningBasis& known) {
  const auto ranks = lost.ranks();
  const auto candidates = with_lead(gpus.left, gpus.own);
  const std::set<GpuId> anchor(gpus.anchor.begin(), gpus.anchor.end());
  for (;;) {
    const auto chosen = faults.choose(now, candidates, anchor, gpus.least);
    if (chosen.empty()) return std::nullopt;
    const std::set<GpuId> on(chosen.begin(), chosen.end());
    const auto is_chosen = [&](const GpuId& gpu) { return on.contains(gpu); };
    if (!ranks.empty() && std::all_of(ranks.begin(), ranks.end(), is_chosen)) return RecoveryPlan{lost, chosen};
    if (auto plan = plan_on_subset(job, chosen, &known); plan && plan->gpu_count() >= gpus.least)
      return RecoveryPlan{*plan, chosen};
    faults.tried(chosen);
  }
}

}  // namespace espalier::launcher
