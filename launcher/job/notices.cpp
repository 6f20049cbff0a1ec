#include "launcher/job/notices.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "launcher/job/grace.hpp"
#include "launcher/job/holdings.hpp"
#include "launcher/job/proposal_check.hpp"
#include "planner/core/schedule/move.hpp"
#include "planner/core/scheduler.hpp"

namespace espalier::launcher {

Notices::Notices(wire::Loop& loop, const JobContext& context, const HeldGpus& held, Callbacks callbacks)
    : loop_(loop), context_(context), held_(held), callbacks_(std::move(callbacks)) {}

void Notices::answer() {
  const std::set<JobId> taken = callbacks_.taken();
  const JobId before = callbacks_.base_before();
  if (retry_ || !callbacks_.idle()) return;
  if (taken.empty() && before == 0) return move_to(callbacks_.arrived());
  if (!taken.empty() && too_late_for(taken)) return;
  Decision decision;
  decision.job = context_.job;
  if (taken.empty()) {
    decision.trigger = Trigger::generation_done;
    decision.kind = DecisionKind::migrate;
    decision.reason = "training leaves base " + std::to_string(before);
  } else {
    decision.trigger = Trigger::preempted;
    decision.kind = DecisionKind::shrink;
    decision.reason = "Slurm takes extensions back";
  }
  std::set<GpuId> lost;
  for (const Holding& holding : held_.all(false))
    if (taken.contains(holding.job) || holding.job == before)
      for (const int index : holding.gpus) lost.insert({holding.node, index});
  const ElasticJob job = callbacks_.job();
  std::vector<GpuId> kept;
  if (job.plan)
    for (const GpuId& gpu : job.plan->ranks())
      if (!lost.contains(gpu)) kept.push_back(gpu);
  kept = held_.with_idle(std::move(kept), lost);
  const auto plan = plan_on_subset(job, kept, &callbacks_.known());
  if (!plan) {
    std::set<JobId> going = taken;
    if (before != 0) going.insert(before);
    return cannot_stay(job, static_cast<int>(kept.size()), going);
  }
  decision.plan = *plan;
  decision.candidates = weighed_against(callbacks_.known(), job, *plan);
  decision.predicted_step_seconds = decision.candidates.back().predicted_step_seconds;
  decision.release = leaving(*plan, held_.extensions(false), taken);
  callbacks_.propose(decision);
}

void Notices::move_to(const std::vector<Holding>& base) {
  if (base.empty()) return;
  const ElasticJob job = callbacks_.job();
  if (const std::string why = type_refusal(job, context_.nodes, callbacks_.arrived_nodes()); !why.empty())
    return callbacks_.stays(why);
  Decision decision;
  decision.job = context_.job;
  decision.trigger = Trigger::job_started;
  decision.kind = DecisionKind::migrate;
  decision.reason = "Slurm has granted base " + std::to_string(base.front().job) + ", for which the job waited";
  const auto plan = plan_on_base(job, base, &callbacks_.known());
  if (!plan) return callbacks_.stays("no plan fits on it");
  decision.plan = *plan;
  decision.candidates = weighed_against(callbacks_.known(), job, *plan);
  decision.candidates.front().rejected_by = "its base has been granted";
  decision.predicted_step_seconds = decision.candidates.back().predicted_step_seconds;
  decision.release = leaving(*plan, held_.extensions(false), {});
  callbacks_.take_arrived();
  callbacks_.propose(decision);
}

void Notices::failed() {
  retry_ = loop_.after(std::chrono::seconds(1), [this] {
    retry_.reset();
    answer();
  });
}

// A change-over that Slurm would cut short costs the state of the GPUs that go, and time: then only a checkpoint is
// asked for, and when the GPUs are gone the job goes on as after any loss.
bool Notices::too_late_for(const std::set<JobId>& taken) {
  const auto grace = grace_seconds(context_.site, context_.config.partition);
  if (!grace) return false;
  const double left = *grace - callbacks_.since(taken), needed = callbacks_.needs();
  if (needed <= left) return false;
  if (!std::includes(given_up_.begin(), given_up_.end(), taken.begin(), taken.end())) {
    spdlog::warn(
        "espalier: launch: a smaller generation would take {:.1f} s, and Slurm takes the GPUs in {:.1f} s: a "
        "checkpoint is asked for (without checkpoint.directory none is written), and the job goes on with fewer GPUs "
        "when they are gone",
        needed, left);
    give_up(taken);
  }
  return true;
}

// No plan on the GPUs that stay: the job trains until the others are gone, and then the recovery ends it. This is said
// once for each job that goes.
void Notices::cannot_stay(const ElasticJob& job, int left, const std::set<JobId>& going) {
  if (std::includes(given_up_.begin(), given_up_.end(), going.begin(), going.end())) return;
  if (left < job.floor_gpus)
    spdlog::error(
        "espalier: launch: {} GPUs would be left, and MIN of --elastic is {}: a checkpoint is asked for (without "
        "checkpoint.directory none is written), and the job ends when the other GPUs are gone; submit the job again "
        "to go on from its newest checkpoint",
        left, job.floor_gpus);
  else
    spdlog::error(
        "espalier: launch: no plan fits on the {} GPUs that remain: a checkpoint is asked for (without "
        "checkpoint.directory none is written), and the job ends when the others are gone",
        left);
  give_up(going);
}

void Notices::give_up(const std::set<JobId>& taken) {
  given_up_.insert(taken.begin(), taken.end());
  callbacks_.save();
}

}  // namespace espalier::launcher
