// Extensions that a job gives back though no other job waits for them: a user asks for them, or the site allows the job
// fewer GPUs than before.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/core/schedule/planning_basis.hpp"
#include "planner/core/schedule/shrinking.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/planner.hpp"
#include "planner/daemon/planning_input.hpp"

namespace espalier {
namespace {

// Seconds until a plan on fewer GPUs is looked for again where there was none.
constexpr double kNoPlanRests = 30;

std::vector<GpuId> gpus_without(const ElasticJob& job, const std::vector<JobId>& leaving) {
  std::vector<GpuId> kept;
  for (const auto* holdings : {&job.anchor, &job.extensions})
    for (const Holding& held : *holdings)
      if (!std::binary_search(leaving.begin(), leaving.end(), held.job))
        for (const int gpu : held.gpus) kept.push_back({held.node, gpu});
  return kept;
}

}  // namespace

Decision Planner::shrunk(const LiveJob& live, const std::vector<JobId>& leaving, Trigger trigger) const {
  const std::string name = "job " + std::to_string(live.job.id);
  ElasticJob job = confirmed(live.job, *last_, settings_.max_gpus);
  std::vector<GpuId> kept = gpus_without(job, leaving);
  // Its launcher goes on with these in the same case.
  if (static_cast<int>(kept.size()) < job.floor_gpus) {
    job = confirmed(with_unfit(live.job), *last_, settings_.max_gpus);
    kept = gpus_without(job, leaving);
  }
  Decision decision;
  for (const Holding& held : job.extensions)
    if (std::binary_search(leaving.begin(), leaving.end(), held.job)) decision.release.push_back(held.job);
  if (decision.release.empty()) throw Error(name + ": Slurm does not confirm the GPUs of its extensions");
  job.max_gpus = std::max(job.max_gpus, gpus_of(job.anchor));  // its own GPUs it keeps, whatever the site's limit is
  std::optional<PlanningBasis> basis;
  if (site_) basis.emplace(PlanningBasis{*site_, live.profiles.coefficients(*site_)});
  const auto plan = plan_on_subset(job, kept, basis ? &*basis : nullptr);
  const std::string left = std::to_string(kept.size()) + " GPUs";
  if (!plan && static_cast<int>(kept.size()) < job.floor_gpus)
    throw Error(name + ": " + left + " would be left, and MIN of --elastic is " + std::to_string(job.floor_gpus));
  if (!plan) throw Error(name + ": has no valid plan on the " + left + " that would be left");
  decision.time = clock_seconds();
  decision.trigger = trigger;
  decision.kind = DecisionKind::shrink;
  decision.job = live.job.id;
  decision.plan = *plan;
  add_unused(job, *plan, decision.release);  // a plan may leave GPUs of the others idle
  return decision;
}

std::int64_t Planner::reclaim(JobId id) {
  const auto found = jobs_.find(id);
  const std::string name = "job " + std::to_string(id);
  if (found == jobs_.end() || !found->second.link) throw Error(name + ": has no connected launcher");
  LiveJob& live = found->second;
  if (live.job.phase != JobPhase::running || live.open)
    throw Error(name + ": is being reconfigured; try again when its phase is running");
  if (!last_) throw Error(name + ": Slurm has not answered yet; try again");
  if (is_suspended(live.job, *last_))
    throw Error(name + ": Slurm has suspended it, its base or an extension of it; try again after `scontrol resume`");
  std::vector<JobId> all;
  for (const Holding& held : confirmed(live.job, *last_, settings_.max_gpus).extensions) all.push_back(held.job);
  if (all.empty()) throw Error(name + ": holds no extension");
  std::sort(all.begin(), all.end());
  DecisionRecord record;
  record.decision = shrunk(live, all, Trigger::user);
  record.decision.reason = "a user asked for all extensions back";
  record.moments["decided"] = record.decision.time;
  propose(live, std::move(record));
  return live.open ? live.open->decision.id : 0;
}

double Planner::give_back_seconds() const {
  constexpr double kBetweenTries = 60;
  return settings_.outcome_seconds + kBetweenTries;
}

// The site may have lowered the limit while the extensions train.
void Planner::keep_limit(const SlurmSnapshot& slurm) {
  for (const auto& [id, leaving] : strays_.beyond_limit()) {
    LiveJob& live = jobs_.at(id);
    if (live.no_smaller_before > slurm.time || (live.failed_to_shrink && live.not_before > slurm.time)) continue;
    try {
      DecisionRecord record;
      record.decision = shrunk(live, leaving, Trigger::timer);
      record.decision.reason = "its GPUs are more than extensions.max_gpus (" + std::to_string(settings_.max_gpus) +
                               ") allows: the youngest extensions are given back";
      record.moments["decided"] = record.decision.time;
      propose(live, std::move(record));
    } catch (const Error& error) {
      live.no_smaller_before = slurm.time + kNoPlanRests;
      log_.line(live.job.uid, spdlog::level::warn,
                "{}; its extensions beyond extensions.max_gpus are ended {} s after they were first found",
                error.what(), give_back_seconds());
    }
  }
}

}  // namespace espalier
