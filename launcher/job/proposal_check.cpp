#include "launcher/job/proposal_check.hpp"

#include <algorithm>

#include "planner/core/json.hpp"

namespace espalier::launcher {

std::optional<std::string> refusal(const Decision& decision, const JobContext& context, const ProposalFacts& facts) {
  if (!facts.elastic) return "the job runs without elasticity";
  if (facts.busy) return "busy: " + to_string(facts.phase);
  if (decision.job != context.job) return "it is for job " + std::to_string(decision.job);
  if (const auto broken = validate(decision.plan, facts.model.layers); !broken.empty())
    return "invalid plan: " + broken.front();
  if (decision.plan.global_batch != facts.model.global_batch) return "invalid plan: the global batch must not change";
  if (decision.plan.gpu_count() > context.max_gpus) return "the plan exceeds the job's maximum";
  const auto present = facts.plan.ranks();
  for (const GpuId& gpu : decision.plan.ranks())  // a shrink may have no others
    if (decision.kind != DecisionKind::shrink && facts.unfit.contains(gpu) &&
        std::find(present.begin(), present.end(), gpu) == present.end())
      return "workers have died on GPU " + std::to_string(gpu.index) + " of " + gpu.node + " again and again";
  if (facts.own.empty() ||
      decision.plan.ranks().front() != GpuId{facts.own.front().node, facts.own.front().gpus.front()})
    return "invalid plan: rank 0 must stay on the anchor's first GPU";
  for (const ExtensionRequest& request : decision.acquire)
    if (request.gpus < 1 || request.node.empty()) return "invalid extension request";
  for (const JobId id : decision.release)
    if (!facts.known(id)) return "extension " + std::to_string(id) + " is not this job's";
  return std::nullopt;
}

}  // namespace espalier::launcher
