#include "planner/core/schedule/growing.hpp"

#include <algorithm>
#include <cstdio>

#include "planner/core/hostlist.hpp"
#include "planner/core/schedule/acquire.hpp"
#include "planner/core/schedule/benefit.hpp"
#include "planner/core/schedule/describe_sketch.hpp"
#include "planner/core/schedule/growth_record.hpp"
#include "planner/core/schedule/materialize.hpp"
#include "planner/core/schedule/replacing.hpp"
#include "planner/core/schedule/searched_placement.hpp"
#include "planner/core/schedule/shrinking.hpp"

namespace espalier {
namespace {

// Of the nodes on which the job gets GPUs, those on which it has some of another Slurm job.
std::string divided_nodes(const ElasticJob& job, const Site& site, const std::vector<ExtensionRequest>& acquire) {
  std::vector<std::string> nodes;
  if (site.hardware.jobs_reach || job.jobs_reach) return "";
  for (const ExtensionRequest& request : acquire)
    for (const auto* holdings : {&job.anchor, &job.extensions})
      for (const Holding& held : *holdings)
        if (held.node == request.node) nodes.push_back(held.node);
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return fold_hosts(nodes);
}

}  // namespace

// The planner's own search on a winner's final GPUs. The exact recurrence decides.
void Growing::polish(Player& one) {
  if (options_.as_printed) return;
  VirtualJob& job = *one.virtual_job;
  const auto pieces = pieces_of(job.held(), job.site());
  const auto found = best_plan(job.evaluator(), pieces, std::span(&job.present().sketch, 1), kPolishEffort);
  if (!found || found->ms >= job.present().ms) return;
  WorkingPlan better = working_plan(job.evaluator(), found->sketch, true);
  if (job.evaluator().exact_sketch(better.sketch) < job.evaluator().exact_sketch(job.present().sketch))
    job.settle(std::move(better));
}

std::optional<Decision> Growing::growth(Player& one, std::vector<Supply>& supplies, std::vector<Weighed>& weighed) {
  VirtualJob& job = *one.virtual_job;
  const WorkingPlan won = job.present();
  polish(one);
  const auto paying = [&] {
    auto plan = materialize(job.problem(), job.present().sketch, *one.job, job.held());
    if (plan && !payoff_.pays_as_placed(one, job.present().sketch, *plan, plan->gpu_count() - one.first_gpus))
      plan.reset();
    return plan;
  };
  auto plan = paying();
  if (!plan && !(job.present().sketch == won.sketch)) {  // the search takes slow links between stages for fast ones
    job.settle(won);
    plan = paying();
  }
  if (!plan) return std::nullopt;
  const int more = plan->gpu_count() - one.first_gpus;
  if (!payoff_.holds_as_placed(one, job.present().sketch, *plan, more)) {
    weighed.push_back(
        {one.job->id, more, one.first_benefit, threshold_,
         "its gain does not hold " + doubt_text(one, job.present().sketch) + "; it waits until more is measured",
         one.standing});
    return std::nullopt;
  }
  Decision d = decision_for(input_, *one.job, DecisionKind::grow);
  const double exact = job.evaluator().exact_sketch(job.present().sketch);
  d.predicted_step_seconds = one.job->step_seconds * exact / one.first_exact;
  const int extra = acquire_for(*one.job, *plan, supplies, d.acquire);
  if (extra == 0) return std::nullopt;
  char text[200];
  std::snprintf(
      text, sizeof text,
      "%d idle GPUs on %zu node(s): from %s to a predicted %s per step (marginal benefit %.3g, threshold %.3g)", extra,
      d.acquire.size(), seconds_text(one.job->step_seconds).c_str(), seconds_text(d.predicted_step_seconds).c_str(),
      one.first_benefit, threshold_);
  d.reason = text;
  if (const std::string nodes = divided_nodes(*one.job, site_, d.acquire); !nodes.empty())
    d.reason += "; those on " + nodes + " reach the job's other GPUs there over the network only";
  if (!options_.as_printed && pessimist(one).doubts(job.present().sketch))
    d.reason += "; the gain holds " + doubt_text(one, job.present().sketch);
  const Plan named = *plan;
  if (!options_.as_printed && input_.coefficients.contains(one.job->id))
    *plan = with_searched_placement(named, job.present().sketch, job.problem(), *one.job);
  if (*plan != named) d.reason += std::string("; ") + kPlacedBySearch;
  add_unused(*one.job, *plan, d.release);
  if (!d.release.empty()) d.kind = DecisionKind::migrate;
  d.candidates = std::move(one.candidates);
  choose_among(d, one);
  d.plan = std::move(*plan);
  return d;
}

// The first round's choice is the final plan only if no further round and no search changed it.
void Growing::choose_among(Decision& d, const Player& one) const {
  const PlanSketch& final = one.virtual_job->present().sketch;
  const Candidate winner{
      describe_sketch(final, one.virtual_job->site().topology),
      final.gpus() - one.first_gpus,
      d.predicted_step_seconds,
      marginal_benefit(one.first_size, one.virtual_job->size_of(one.virtual_job->held()) - one.first_size,
                       one.base_exact, one.first_exact * d.predicted_step_seconds / one.job->step_seconds) *
          one.discount,
      {}};
  for (Candidate& candidate : d.candidates)
    if (candidate.rejected_by.empty())
      candidate.rejected_by = candidate.gpus < winner.gpus ? "chosen first, then grown further in the same decision"
                                                           : "chosen first, then a faster plan was found on its GPUs";
  std::erase_if(d.candidates, [&](const Candidate& candidate) { return candidate.plan == winner.plan; });
  d.candidates.push_back(winner);
}

bool Growing::may_replan(const Player& one) const {
  return !options_.as_printed && input_.coefficients.contains(one.job->id) && !input_.tuned.contains(one.job->id);
}

// A better plan on the same GPUs. Only if coefficients were observed and the change is worth its
// cost.
std::optional<Decision> Growing::replan(Player& one) {
  VirtualJob& job = *one.virtual_job;
  if (!may_replan(one) || !job.is_replanned() || replaces(*one.job)) return std::nullopt;
  const WorkingPlan& better = job.replanned(kReplanEffort);
  const double now = one.first_exact, next = job.evaluator().exact_sketch(better.sketch);
  if (!payoff_.worth_its_cost(one, now, next, better.sketch, 0)) return std::nullopt;
  auto plan = materialize(job.problem(), better.sketch, *one.job, job.held());
  if (!plan || *plan == *one.job->plan || !payoff_.pays_as_placed(one, better.sketch, *plan, 0) ||
      !payoff_.holds_as_placed(one, better.sketch, *plan, 0))
    return std::nullopt;
  Decision d = decision_for(input_, *one.job, DecisionKind::migrate);
  add_unused(*one.job, *plan, d.release);
  d.predicted_step_seconds = one.job->step_seconds * next / now;
  d.reason = "a faster plan on the GPUs it has: from " + seconds_text(one.job->step_seconds) + " to a predicted " +
             seconds_text(d.predicted_step_seconds) + " per step";
  d.candidates.push_back({describe_sketch(better.sketch, job.site().topology),
                          better.sketch.gpus() - one.first_gpus,
                          d.predicted_step_seconds,
                          0,
                          {}});
  d.plan = std::move(*plan);
  return d;
}

}  // namespace espalier
