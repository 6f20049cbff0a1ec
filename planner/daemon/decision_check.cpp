#include "planner/daemon/decision_check.hpp"

#include <algorithm>

#include "planner/core/schedule/move.hpp"
#include "planner/daemon/planning_input.hpp"

namespace espalier {

std::set<std::string> promised_since(const std::map<JobId, LiveJob>& jobs, double since) {
  std::set<std::string> nodes;
  for (const auto& [id, live] : jobs)
    if (live.open && live.open->decision.time >= since)
      for (const ExtensionRequest& request : live.open->decision.acquire) nodes.insert(request.node);
  return nodes;
}

std::string out_of_date(const Decision& decision, const PlanningInput& input, const std::map<JobId, LiveJob>& jobs,
                        const SlurmSnapshot& slurm, int max_gpus, const std::set<std::string>& promised) {
  const auto found = jobs.find(decision.job);
  const auto was = std::lower_bound(input.jobs.begin(), input.jobs.end(), decision.job,
                                    [](const ElasticJob& one, JobId id) { return one.id < id; });
  if (found == jobs.end() || was == input.jobs.end() || was->id != decision.job) return "the job has ended";
  const LiveJob& live = found->second;
  const ElasticJob& job = live.job;
  if (!live.link) return "its launcher is no longer connected";
  if (live.open) return "decision " + std::to_string(live.open->decision.id) + " is under way";
  if (job.generation != was->generation || job.phase != was->phase || job.plan != was->plan)
    return "the job has been reconfigured";
  if (job.held && !was->held) return "the job has been held";
  const ElasticJob now = confirmed(job, slurm, max_gpus);
  if (now.anchor != was->anchor || now.extensions != was->extensions) return "the job holds other GPUs";
  if (job.unfit != was->unfit) return "its workers have died on other GPUs";
  const int most = moves_base(decision) ? most_after_move(now.max_gpus, decision.acquire, *was->plan) : now.max_gpus;
  if (decision.plan.gpu_count() > most && decision.plan.gpu_count() > was->plan->gpu_count())
    return "it may have " + std::to_string(now.max_gpus) + " GPUs at most now";
  if (live.not_before > input.now && (live.failed_to_shrink || decision.kind != DecisionKind::shrink))
    return "an earlier decision about the job has failed";
  for (const ExtensionRequest& request : decision.acquire)
    if (promised.contains(request.node)) return "GPUs of node " + request.node + " have been promised to another job";
  return "";
}

}  // namespace espalier
