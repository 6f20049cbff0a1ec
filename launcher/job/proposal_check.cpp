#include "launcher/job/proposal_check.hpp"

#include <algorithm>

#include "planner/core/json.hpp"
#include "planner/core/schedule/gpu_type.hpp"
#include "planner/core/schedule/move.hpp"

namespace espalier::launcher {

namespace {

// GPUs of the base that the decision asks for; 0: the request is not valid.
int gpus_of_base(const Decision& decision) {
  int gpus = 0;
  for (const ExtensionRequest& request : decision.acquire) {
    if (request.gpus < 1 || request.node.empty() || request.gpus != decision.acquire.front().gpus ||
        request.lease_minutes != 0)
      return 0;
    gpus += request.gpus;
  }
  return gpus;
}

// Of a decision that replaces the base.
std::optional<std::string> base_refusal(const Decision& decision, const JobContext& context) {
  if (!moves_base(decision)) return std::nullopt;
  if (!context.movable) return "the job is not movable: its GPUs are those of the submitted job";
  const int gpus = gpus_of_base(decision);
  if (gpus == 0) return "invalid request for a base";
  if (gpus < context.min_gpus) return "the new base would have fewer GPUs than MIN";
  if (decision.plan.ranks().front().node != decision.acquire.front().node)
    return "invalid plan: rank 0 must be on the first node of the new base";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> refusal(const Decision& decision, const JobContext& context, const ProposalFacts& facts) {
  if (!facts.elastic) return "the job runs without elasticity";
  if (facts.busy) return "busy: " + to_string(facts.phase);
  if (decision.job != context.job) return "it is for job " + std::to_string(decision.job);
  if (const auto broken = validate(decision.plan, facts.model.layers); !broken.empty())
    return "invalid plan: " + broken.front();
  if (decision.plan.global_batch != facts.model.global_batch) return "invalid plan: the global batch must not change";
  const int most =
      moves_base(decision) ? most_after_move(context.max_gpus, decision.acquire, facts.plan) : context.max_gpus;
  if (decision.plan.gpu_count() > most) return "the plan exceeds the job's maximum";
  const auto present = facts.plan.ranks();
  for (const GpuId& gpu : decision.plan.ranks())  // a shrink may have no others
    if (decision.kind != DecisionKind::shrink && facts.unfit.contains(gpu) &&
        std::find(present.begin(), present.end(), gpu) == present.end())
      return "workers have died on GPU " + std::to_string(gpu.index) + " of " + gpu.node +
             " again and again, or its driver reports errors";
  if (const auto why = base_refusal(decision, context)) return why;
  if (!moves_base(decision) && (facts.own.empty() || decision.plan.ranks().front() !=
                                                         GpuId{facts.own.front().node, facts.own.front().gpus.front()}))
    return "invalid plan: rank 0 must stay on the anchor's first GPU";
  for (const ExtensionRequest& request : decision.acquire)
    if (request.gpus < 1 || request.node.empty()) return "invalid extension request";
  for (const JobId id : decision.release)
    if (!facts.known(id)) return "extension " + std::to_string(id) + " is not this job's";
  return std::nullopt;
}

std::string type_refusal(const ElasticJob& job, const std::vector<NodeView>& present,
                         const std::vector<NodeView>& next) {
  std::set<std::string> now, then;
  for (const NodeView& node : present) now.insert(node.gpu_type);
  for (const NodeView& node : next) then.insert(node.gpu_type);
  if (!keeps_gpu_type(job) || now.empty() || (then.size() == 1 && then == now)) return "";
  const auto listed = [](const std::set<std::string>& types) {
    std::string text;
    for (const std::string& type : types) text += (text.empty() ? "" : " and ") + type;
    return text;
  };
  return "it has GPUs of type " + listed(then) + ", and accuracy=bitwise keeps the training on " + listed(now) +
         ", as others may round differently; name one type with types=, or give accuracy=relaxed";
}

std::string smaller_base_refusal(const Decision& decision, const JobContext& context) {
  const int gpus = gpus_of_base(decision);
  if (decision.job != context.job) return "it is for job " + std::to_string(decision.job);
  if (!context.movable) return "the job is not movable: its GPUs are those of the submitted job";
  if (gpus == 0) return "invalid request for a base";
  if (gpus < context.min_gpus) return "the base would have fewer GPUs than MIN";
  if (gpus >= context.base_gpus) return "the base would not be smaller than the one that waits";
  return "";
}

}  // namespace espalier::launcher
