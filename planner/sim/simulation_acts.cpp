#include "planner/sim/simulation_state.hpp"

#include <algorithm>
#include <cmath>

#include "planner/core/error.hpp"

namespace espalier::sim {
void Simulation::think() {
  queue_.turn_to(input_.now);
  if (policy_.keeps_basic()) {
    input_.cluster.waiting = queue_.is_slurm() ? shown_planned(planned_starts(), input_.cluster)
                                               : shown_waiting(queue_, input_.cluster, input_.extensions, input_.now,
                                                               [this](JobId owner) { return expected_end(owner); });
    if (preempts())
      for (WaitingJob& waiting : input_.cluster.waiting) waiting.left_to_slurm = !live_.at(waiting.id).seen_by_slurm;
  } else {
    input_.cluster.waiting.clear();
    for (const SimulatedJobState* job : queue_.waiting())
      input_.cluster.waiting.push_back({job->id, job->kind->gpus(), 1, {}, {}, 0});
  }
  bases_.before_decision();
  for (auto& [id, job] : live_) {
    job.advance(input_.now);
    if (job.state.plan)
      elastic_job(id)->step = static_cast<std::int64_t>(job.state.job->iterations - job.state.iterations_left);
    if (job.wide_start) input_.start_seconds[id] = input_.redeploy_seconds[id] = 0;
  }
  const double begin = options_.clock ? options_.clock() : 0;
  auto acts = policy_.decide({input_, present_, queue_.waiting()});
  if (options_.clock) run_.latencies.push_back(options_.clock() - begin);
  ++run_.decisions;
  const auto wish = bases_.take_wish(acts);
  apply(acts);
  bases_.after_decision(wish);
  for (auto& [id, job] : live_) {
    if (!job.wide_start) continue;
    job.wide_start = false;
    input_.start_seconds.erase(id);
    input_.redeploy_seconds.erase(id);
  }
}

// What the base queue knows: where it backfills the time limits.
double Simulation::expected_end(JobId owner) const {
  const auto found = live_.find(bases_.job_of(owner) != 0 ? bases_.job_of(owner) : owner);
  if (found == live_.end()) return kNever;
  const LiveJob& job = found->second;
  if (queue_.is_slurm()) return std::max(job.state.started + asked_limit(job.state), input_.now);
  return queue_.backfills() ? std::max(job.state.started + time_limit(job.state), input_.now) : end_of(job);
}

double Simulation::end_of(const LiveJob& job) const {
  return job.state.iterations_left * job.state.step_seconds + std::max(job.since, input_.now) +
         options_.delays.end_seconds;
}

void Simulation::refuse(const Act& act, const std::string& why) const {
  throw Error(policy_.name() + ": what it decided for job " + std::to_string(act.job) + " cannot be: " + why);
}

void Simulation::apply(const std::vector<Act>& acts) {
  std::set<JobId> seen;
  for (const Act& act : acts) {
    const auto found = live_.find(act.job);
    if (found == live_.end()) refuse(act, "there is no such job");
    if (found->second.state.redeploying) refuse(act, "it is being redeployed");
    if (!seen.insert(act.job).second) refuse(act, "it is named twice");
    if (!act.plan && !found->second.state.plan) refuse(act, "it does not run");
  }
  // If pauses begin at once, GPUs change hands at once: all jobs give up GPUs before any job takes
  // some.
  if (!overlaps())
    for (const Act& act : acts) give_up(live_.at(act.job), act);
  for (const Act& act : acts)
    if (act.plan) enact(live_.at(act.job), act);
  if (!acts.empty() && !policy_.owns_queue()) start_waiting();
}

bool Simulation::overlaps() const { return policy_.redeployment() != Method::checkpoint; }

void Simulation::give_up(LiveJob& job, const Act& act) {
  if (!job.state.plan) return;
  if (!act.plan) {
    stop(job);
    return;
  }
  ElasticJob& elastic = *elastic_job(job.state.id);
  if (policy_.keeps_basic()) {
    for (const JobId extension : act.release) {
      check_holds(act, elastic, extension);
      drop_extension(job, elastic, extension);
    }
    return;
  }
  for (const Holding& held : elastic.anchor) holders_.own(held, 0);
  elastic.anchor.clear();
  recount(job, elastic);
}

void Simulation::stop(LiveJob& job) {
  ElasticJob& elastic = *elastic_job(job.state.id);
  for (const Holding& held : elastic.anchor) holders_.own(held, 0);
  allocated_ -= job.held;
  job.held = 0;
  job.training = false;
  job.stopped_before = true;
  ++job.speed_version;
  ++job.change_version;
  job.state.plan.reset();
  job.state.step_seconds = 0;
  job.state.started_on = -1;
  job.state.last_change = input_.now;
  input_.jobs.erase(input_.jobs.begin() + (&elastic - input_.jobs.data()));
  forget(job.state.id);
  queue_.add(job.state);
}

void Simulation::enact(LiveJob& job, const Act& act) {
  const auto broken = validate(*act.plan, job.state.kind->shape.layers);
  if (!broken.empty()) refuse(act, broken.front());
  if (!job.state.plan) {
    check_idle(act, holdings_of(*act.plan, act.job), {});
    start(job, *act.plan);
    return;
  }
  const double step = true_step(job, *act.plan);
  ElasticJob& elastic = *elastic_job(act.job);
  RedeployCost cost = redeploy_cost(policy_.redeployment(), options_.redeploy, *input_.site,
                                    job.state.kind->coefficients, *job.state.plan, *act.plan);
  if (job.wide_start) cost = {};
  cost.pause_seconds += search_seconds(options_.redeploy, policy_.prunes_search(), act.plan->gpu_count());
  cost.overlap_seconds += act.thought_seconds;
  if (policy_.keeps_basic()) {
    extend(job, elastic, act);
    if (!job.arriving.empty()) cost.overlap_seconds += options_.delays.acquire_seconds;
  } else {
    const auto wanted = holdings_of(*act.plan, act.job);
    check_idle(act, wanted, {act.job});
    // The job also needs the GPUs of the old plan until that plan has ended.
    for (const Holding& held : wanted) holders_.own(held, act.job);
    elastic.anchor = overlaps() ? merged(elastic.anchor, wanted) : wanted;
    recount(job, elastic);
  }
  begin_change(job, elastic, *act.plan, step, cost);
}

void Simulation::begin_change(LiveJob& job, ElasticJob& elastic, Plan plan, double step, const RedeployCost& cost) {
  job.target = std::move(plan);
  job.target_step_seconds = step;
  job.state.redeploying = true;
  elastic.phase = JobPhase::starting;
  ++job.state.restarts;
  ++run_.redeployments;
  ++job.change_version;
  const double pause_at = job.step_end(input_.now + cost.overlap_seconds);
  if (pause_at > input_.now) events_.add({pause_at, EventKind::pause, job.state.id, job.change_version});
  else pause(job);
  events_.add({pause_at + cost.pause_seconds, EventKind::commit, job.state.id, job.change_version});
}

// New GPUs come as one extension per node. Released extensions leave when the redeployment ends.
void Simulation::extend(LiveJob& job, ElasticJob& elastic, const Act& act) {
  std::set<GpuId> own_gpus;
  for (const auto* holdings : {&elastic.anchor, &elastic.extensions})
    for (const Holding& held : *holdings) {
      if (std::find(act.release.begin(), act.release.end(), held.job) != act.release.end()) continue;
      for (const int gpu : held.gpus) own_gpus.insert({held.node, gpu});
    }
  std::map<std::string, std::vector<int>> added;
  for (const GpuId& gpu : act.plan->ranks())
    if (!own_gpus.contains(gpu)) added[gpu.node].push_back(gpu.index);
  if (overlaps()) {
    for (const JobId released : act.release) {
      const Holding& held = check_holds(act, elastic, released);
      NodeView& node = holders_.node(held.node);
      node.freeing.insert(node.freeing.end(), held.gpus.begin(), held.gpus.end());
    }
    job.leaving = act.release;
  }
  for (auto& [node, gpus] : added) {
    std::sort(gpus.begin(), gpus.end());
    Holding extension{next_extension_++, node, std::move(gpus)};
    check_idle(act, {extension}, {});
    holders_.add_extension(extension);
    job.arriving.push_back(extension.job);
    elastic.extensions.push_back(std::move(extension));
  }
  recount(job, elastic);
}

const Holding& Simulation::check_holds(const Act& act, const ElasticJob& elastic, JobId extension) const {
  for (const Holding& held : elastic.extensions)
    if (held.job == extension) return held;
  refuse(act, "it releases extension " + std::to_string(extension) + ", which it does not hold");
}

void Simulation::check_idle(const Act& act, const std::vector<Holding>& wanted, const std::set<JobId>& or_owned_by) {
  if (const auto why = holders_.obstacle(wanted, or_owned_by)) refuse(act, *why);
}

}  // namespace espalier::sim
