#include "planner/daemon/leases.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "planner/core/waiting.hpp"

namespace espalier {
namespace {

constexpr double kAgain = 20;  // seconds; Slurm may have refused, or not answered yet

}  // namespace

std::vector<Lease> Leases::due(const SlurmSnapshot& slurm, const std::map<JobId, LiveJob>& jobs,
                               int max_lease_minutes) {
  std::erase_if(named_, [&](const auto& one) { return slurm.time - one.second >= kAgain || one.second > slurm.time; });
  const double soon = std::max(60.0, max_lease_minutes * 60.0 / 4);
  std::vector<Lease> found;
  for (const auto& [id, live] : jobs) {
    if (!live.link || live.open || live.job.phase != JobPhase::running) continue;
    for (const Holding& held : live.job.extensions) {
      if (held.job == id || named_.contains(held.job)) continue;
      const SlurmJob* const job = slurm.alive(held.job);
      if (job == nullptr || job->state != SlurmJobState::running || job->preempted || job->uid != live.job.uid)
        continue;
      if (anchor_of_comment(job->comment) != id || job->ends <= 0 || job->ends - slurm.time > soon) continue;
      found.push_back({held.job, id, held.node, job->started, job->ends});
      named_[held.job] = slurm.time;
    }
  }
  return found;
}

std::vector<Renewal> renewed(const std::vector<Lease>& due, const PlanningInput& input,
                             const SchedulerOptions& options) {
  if (due.empty()) return {};
  const WaitingPlan plan = serve_waiting(input, options);
  std::map<std::string, int> minutes;  // a node that is not usable is absent
  for (const Supply& supply : plan.supplies) minutes[supply.node->name] = supply.lease_minutes;
  std::set<JobId> reclaimed;
  for (const auto& [job, reclaim] : plan.reclaims)
    reclaimed.insert(reclaim.extensions.begin(), reclaim.extensions.end());
  std::vector<Renewal> result;
  for (const Lease& lease : due) {
    const auto node = minutes.find(lease.node);
    if (node == minutes.end() || reclaimed.contains(lease.extension)) continue;
    // A decision knows the nodes that are closed to a job only if it plans that job.
    if (std::none_of(input.jobs.begin(), input.jobs.end(), [&](const ElasticJob& job) { return job.id == lease.job; }))
      continue;
    const auto closed = input.closed.find(lease.job);
    if (closed != input.closed.end() && closed->second &&
        std::binary_search(closed->second->begin(), closed->second->end(), lease.node))
      continue;
    // Slurm counts whole minutes from the start.
    const int limit = static_cast<int>(std::floor((input.now - lease.started) / 60)) + node->second;
    if (lease.started + 60.0 * limit >= lease.ends + 60)
      result.push_back({lease.extension, lease.job, lease.node, limit});
  }
  return result;
}

}  // namespace espalier
