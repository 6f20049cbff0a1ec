#include "launcher/recovery/recovery_plan.hpp"

#include <algorithm>

#include "launcher/job/holdings.hpp"
#include "planner/core/scheduler.hpp"

namespace espalier::launcher {

std::optional<RecoveryPlan> choose_recovery_plan(Faults& faults, Faults::Time now, const Plan& lost,
                                                 const GpusForRecovery& gpus, const ElasticJob& job,
                                                 const PlanningBasis& known) {
  const auto ranks = lost.ranks();
  std::vector<GpuId> candidates;
  for (const GpuId& gpu : ranks)
    if (gpus.left.contains(gpu)) candidates.push_back(gpu);
  candidates = with_lead(std::move(candidates), gpus.own);
  const std::set<GpuId> anchor(gpus.anchor.begin(), gpus.anchor.end());
  for (;;) {
    const auto chosen = faults.choose(now, candidates, anchor, gpus.least);
    if (chosen.empty()) return std::nullopt;
    if (std::is_permutation(ranks.begin(), ranks.end(), chosen.begin(), chosen.end()))
      return RecoveryPlan{lost, chosen};
    if (auto plan = plan_on_subset(job, chosen, &known); plan && plan->gpu_count() >= gpus.least)
      return RecoveryPlan{*plan, chosen};
    faults.tried(chosen);
  }
}

}  // namespace espalier::launcher
