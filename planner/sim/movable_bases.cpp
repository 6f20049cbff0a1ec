#include "planner/sim/movable_bases.hpp"

#include <algorithm>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/core/schedule/hindered.hpp"
#include "planner/core/schedule/move.hpp"
#include "planner/sim/simulation_state.hpp"

namespace espalier::sim {
namespace {

// launcher/base: steps on the new base before the one before it is given back, and the longest time for which it is
// kept.
constexpr int kStepsBeside = 5;
constexpr double kBothHeld = 60;

std::vector<GpuId> gpus_of(const std::vector<Holding>& holdings) {
  std::vector<GpuId> gpus;
  for (const Holding& held : holdings)
    for (const int gpu : held.gpus) gpus.push_back({held.node, gpu});
  return gpus;
}

bool uses(const Plan& plan, const std::vector<Holding>& base) {
  const auto ranks = plan.ranks();
  const auto gpus = gpus_of(base);
  return std::any_of(gpus.begin(), gpus.end(),
                     [&](const GpuId& gpu) { return std::find(ranks.begin(), ranks.end(), gpu) != ranks.end(); });
}

}  // namespace

JobId MovableBases::job_of(JobId base) const {
  const auto found = jobs_.find(base);
  return found == jobs_.end() ? 0 : found->second;
}

JobId MovableBases::number_for(const LiveJob& job) {
  jobs_[sim_.next_extension_] = job.state.id;
  return sim_.next_extension_++;
}

JobId MovableBases::new_base(LiveJob& job) { return job.bases.id = number_for(job); }

// Where no plan fits, or none is known to fit on the second base alone, training stays where it is.
bool MovableBases::begin_move(LiveJob& job) {
  LiveBases& bases = job.bases;
  const ElasticJob elastic = seen_by_launcher(job);
  const PlanningBasis known = known_of(job);
  bases.next_own_plan = own_plan_on(job, bases.next);
  if (!bases.next_own_plan) {
    give_back(job, bases.next);
    return false;
  }
  auto plan = plan_on_base(elastic, bases.next, &known);
  if (!plan || !sim_.feasible(job, *plan)) plan = bases.next_own_plan;
  change(job, std::move(*plan));
  return true;
}

// A launcher knows how long its steps take.
ElasticJob MovableBases::seen_by_launcher(const LiveJob& job) const {
  ElasticJob elastic = *sim_.elastic_job(job.state.id);
  elastic.step_seconds = job.state.step_seconds;
  return elastic;
}

PlanningBasis MovableBases::known_of(const LiveJob& job) const {
  PlanningBasis known{*sim_.input_.site, std::nullopt};
  const auto measured = sim_.input_.coefficients.find(job.state.id);
  if (measured != sim_.input_.coefficients.end()) known.coefficients = measured->second;
  return known;
}

std::optional<Plan> MovableBases::own_plan_on(const LiveJob& job, const std::vector<Holding>& base) const {
  const auto gpus = gpus_of(base);
  try {
    if (static_cast<int>(gpus.size()) == job.state.kind->gpus()) {
      Plan basic = sim_.basic_on(job.state, gpus);
      if (sim_.feasible(job, basic)) return basic;
    }
  } catch (const Error&) {  // a replica would span nodes
  }
  ElasticJob elastic = seen_by_launcher(job);
  elastic.anchor = base;
  const PlanningBasis known = known_of(job);
  auto plan = plan_on_subset(elastic, gpus, &known);
  return plan && sim_.feasible(job, *plan) ? plan : std::nullopt;
}

void MovableBases::change(LiveJob& job, Plan plan) {
  job.advance(sim_.input_.now);
  const RedeployOptions& options = sim_.options_.redeploy;
  const Policy& policy = sim_.policy_;
  RedeployCost cost = redeploy_cost(policy.redeployment(), options, *sim_.input_.site, job.state.kind->coefficients,
                                    *job.state.plan, plan);
  cost.pause_seconds += search_seconds(options, policy.prunes_search(), plan.gpu_count());
  if (job.bases.wished && !job.bases.next.empty()) cost.overlap_seconds += sim_.options_.delays.queue_seconds;
  job.bases.moving = true;
  const double step = sim_.true_step(job, plan);
  sim_.begin_change(job, *sim_.elastic_job(job.state.id), std::move(plan), step, cost);
}

void MovableBases::granted(LiveJob& job, const Plan& basic) {
  job.advance(sim_.input_.now);
  job.bases.waits = job.bases.wished = false;
  job.bases.next = holdings_of(basic, number_for(job));
  for (const Holding& held : job.bases.next) sim_.holders_.own(held, held.job);
  sim_.recount(job, *sim_.elastic_job(job.state.id));
  if (!job.state.redeploying) begin_move(job);
}

void MovableBases::take_second(LiveJob& job, ElasticJob& elastic) {
  LiveBases& bases = job.bases;
  bases.moving = false;
  if (bases.next.empty()) return;  // it has left the base before
  bases.before = std::exchange(elastic.anchor, std::exchange(bases.next, {}));
  bases.id = elastic.anchor.front().job;
  bases.own_plan = std::move(bases.next_own_plan);
  bases.moved += bases.wished;
  job.state.started_on = sim_.type_of(*bases.own_plan);
}

bool MovableBases::go_on(LiveJob& job) {
  LiveBases& bases = job.bases;
  if (!bases.before.empty() && uses(*job.state.plan, bases.before)) {
    const ElasticJob elastic = seen_by_launcher(job);
    const PlanningBasis known = known_of(job);
    std::vector<GpuId> gpus = gpus_of(elastic.anchor);
    for (const GpuId& gpu : gpus_of(elastic.extensions)) gpus.push_back(gpu);
    auto plan = plan_on_subset(elastic, gpus, &known);
    if (!plan || !sim_.feasible(job, *plan)) plan = bases.own_plan;
    change(job, std::move(*plan));
    return true;
  }
  if (!bases.before.empty() && !bases.giving_back) {
    bases.giving_back = true;
    const double held = std::min(kBothHeld, kStepsBeside * job.state.step_seconds);
    sim_.events_.add(
        {sim_.input_.now + held, EventKind::base, job.state.id, static_cast<int>(bases.before.front().job)});
  }
  return bases.before.empty() && !bases.next.empty() && begin_move(job);
}

bool MovableBases::happen(LiveJob& job, JobId base) {
  LiveBases& bases = job.bases;
  if (base == 0) {
    sim_.input_.trigger = Trigger::timer;
    return !job.state.plan;
  }
  if (bases.before.empty() || bases.before.front().job != base) return false;
  give_back(job, bases.before);
  bases.giving_back = bases.wished = false;
  sim_.input_.trigger = Trigger::gpus_released;
  return true;
}

void MovableBases::give_back(LiveJob& job, std::vector<Holding>& base) {
  job.advance(sim_.input_.now);
  for (const Holding& held : base) sim_.holders_.own(held, 0);
  jobs_.erase(base.front().job);
  base.clear();
  sim_.recount(job, *sim_.elastic_job(job.state.id));
}

void MovableBases::stop_waiting(LiveJob& job) {
  if (std::exchange(job.bases.waits, false)) sim_.queue_.remove(job.state.id);
  job.bases.moving = false;
}

void MovableBases::end(LiveJob& job) {
  if (!has(job)) return;
  stop_waiting(job);
  for (const auto* base : {&job.bases.next, &job.bases.before})
    for (const Holding& held : *base) sim_.holders_.own(held, 0);
  std::erase_if(jobs_, [&](const auto& one) { return one.second == job.state.id; });
  --present_;
}

}  // namespace espalier::sim
