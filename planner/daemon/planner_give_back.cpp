// Extensions that a job gives back though no other job waits for them: a user asks for them, or the site allows the job
// fewer GPUs than before.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

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
// Seconds of the loop that such plans take before it answers others again, and how long it does.
constexpr double kPlanning = 0.05;
constexpr std::chrono::milliseconds kPause{10};

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
void Planner::keep_limit() {
  beyond_left_ = strays_.beyond_limit().size();
  ask_back_beyond_limit();
}

// Hundreds of jobs may be beyond the limit when it is lowered, and each needs a plan.
void Planner::ask_back_beyond_limit() {
  const auto& beyond = strays_.beyond_limit();
  const double until = clock_seconds() + kPlanning, now = last_->time;
  beyond_left_ = std::min(beyond_left_, beyond.size());
  for (auto next = beyond.upper_bound(beyond_seen_); beyond_left_ > 0; --beyond_left_, ++next) {
    if (next == beyond.end()) next = beyond.begin();
    if (clock_seconds() >= until) {  // the others' turn comes when the loop has answered everybody else
      more_beyond_ = loop_.after(kPause, [this] {
        try {
          ask_back_beyond_limit();
        } catch (const std::exception& error) {  // the store cannot be written
          spdlog::error("{}", error.what());
        }
      });
      return;
    }
    beyond_seen_ = next->first;
    const auto found = jobs_.find(next->first);
    if (found == jobs_.end()) continue;
    LiveJob& live = found->second;
    // Since the look it may have gone, or been asked for something else.
    if (!live.link || live.open || live.job.phase != JobPhase::running) continue;
    if (live.no_smaller_before > now || (live.failed_to_shrink && live.not_before > now)) continue;
    try {
      DecisionRecord record;
      record.decision = shrunk(live, next->second, Trigger::timer);
      record.decision.reason = "its GPUs are more than extensions.max_gpus (" + std::to_string(settings_.max_gpus) +
                               ") allows: the youngest extensions are given back";
      record.moments["decided"] = record.decision.time;
      propose(live, std::move(record));
    } catch (const Error& error) {
      live.no_smaller_before = now + kNoPlanRests;
      log_.line(live.job.uid, spdlog::level::warn,
                "{}; its extensions beyond extensions.max_gpus are ended {} s after they were first found",
                error.what(), give_back_seconds());
    }
  }
}

}  // namespace espalier
