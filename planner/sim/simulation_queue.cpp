#include "planner/sim/simulation_state.hpp"

#include <algorithm>
#include <cmath>

#include "planner/sim/free_gpus.hpp"
#include "planner/sim/slurm_preemption.hpp"

namespace espalier::sim {

void Simulation::start_waiting() {
  if (queue_.empty()) return;
  queue_.turn_to(input_.now);
  const Delays& delays = options_.delays;
  const bool submitted = input_.trigger == Trigger::job_submitted;
  double at = input_.now + (submitted ? delays.queue_seconds : delays.release_seconds);
  if (submitted) {
    if (new_jobs_at_ > input_.now) at = new_jobs_at_;  // one look serves both jobs
    else at = std::max(at, new_jobs_at_ + delays.batch_sched_seconds);
    new_jobs_at_ = at;
  }
  look_at_queue(at);
  if (queue_.is_slurm()) ask_for_backfill(at);
}

void Simulation::look_at_queue(double at) {
  if (at >= queue_at_) return;
  if (at <= input_.now) return serve_queue();
  const SimulatedJobState& head = *queue_.waiting().front();
  const bool slurm_acts = preempts() && (!live_.at(head.id).seen_by_slurm || !victims_for(head).empty());
  // Only backfill may start a job behind the head.
  const auto& waiting = queue_.waiting();
  const auto last = queue_.backfills() ? waiting.end() : std::next(waiting.begin());
  FreeGpus free(input_.cluster);  // one for all: the first that fits ends the search, and one that does not takes none
  const bool starts = std::any_of(waiting.begin(), last,
                                  [&](const SimulatedJobState* job) { return take_for(free, *job).has_value(); });
  if (!slurm_acts && !starts) return;
  queue_at_ = at;
  events_.add({at, EventKind::queue, 0, 0});
}

// The job's basic plan on these GPUs of one type.
Plan Simulation::basic_on(const SimulatedJobState& job, const std::vector<GpuId>& gpus) const {
  return basic_plan(*job.kind, gpus, input_.cluster.find(gpus.front().node)->gpu_type);
}

void Simulation::serve_queue() {
  queue_.turn_to(input_.now);
  start_those_that_fit();
  if (!preempts()) return;
  if (!queue_.is_slurm())
    for (const SimulatedJobState* job : queue_.waiting()) live_.at(job->id).seen_by_slurm = true;
  for (std::size_t before = 0; queue_.waiting().size() != before && !queue_.empty(); start_those_that_fit()) {
    before = queue_.waiting().size();
    const SimulatedJobState& head = *queue_.waiting().front();
    live_.at(head.id).seen_by_slurm = true;
    preempt(victims_for(head));
  }
}

void Simulation::start_those_that_fit() {
  if (queue_.empty()) return;
  FreeGpus free(input_.cluster, {}, [this](JobId owner) { return holders_.is_extension(owner); });
  while (!queue_.empty()) {
    const SimulatedJobState& head = *queue_.waiting().front();
    const auto gpus = take_for(free, head);
    if (!gpus) return backfill(free, head);
    start(live_.at(head.id), basic_on(head, *gpus));
  }
}

// Starts jobs behind `head`, which does not fit.
void Simulation::backfill(FreeGpus& free, const SimulatedJobState& head) {
  if (!queue_.backfills()) return;
  const auto end_of = [this](JobId owner) { return expected_end(owner); };
  const std::vector<const SimulatedJobState*> behind(queue_.waiting().begin() + 1, queue_.waiting().end());
  for (const SimulatedJobState* job : behind) {
    const auto gpus = take_for(free, *job);
    if (!gpus) continue;
    if (may_pass(input_.cluster, input_.extensions, head, *job, *gpus, input_.now, end_of))
      start(live_.at(job->id), basic_on(*job, *gpus));
    else free.give_back(*gpus);
  }
}

void Simulation::start(LiveJob& job, Plan plan) {
  const double step = true_step(job, plan);
  queue_.remove(job.state.id);
  if (job.state.plan) return bases_.granted(job, plan);
  auto own = holdings_of(plan, bases_.has(job) ? bases_.new_base(job) : job.state.id);
  start_on(job, std::move(plan), step, std::move(own), 0);
}

// `own`: the GPUs of its first Slurm job, which starts `queued` seconds from now.
void Simulation::start_on(LiveJob& job, Plan plan, double step, std::vector<Holding> own, double queued) {
  job.state.started_on = type_of(plan);
  job.advance(input_.now);
  ElasticJob& elastic = add_elastic(job);
  elastic.anchor = std::move(own);
  for (const Holding& held : elastic.anchor) holders_.own(held, held.job);
  recount(job, elastic);
  job.state.waited = job.state.waited_until(input_.now);
  if (job.state.started < 0) job.state.started = input_.now;
  if (!job.stopped_before) {
    elastic.plan = job.state.plan = job.target = std::move(plan);
    job.state.step_seconds = job.target_step_seconds = step;
    const double launch =
        queued + options_.delays.launch_seconds + search_seconds(options_.redeploy, policy_.prunes_search(), job.held);
    if (launch <= 0) {
      begin(job);
      return;
    }
    job.state.redeploying = true;
    elastic.phase = JobPhase::launching;
    events_.add({input_.now + launch, EventKind::begin, job.state.id, 0});
    return;
  }
  begin_change(job, elastic, std::move(plan), step,
               {0, resume_seconds(options_.redeploy, job.state.kind->coefficients, job.held) +
                       search_seconds(options_.redeploy, policy_.prunes_search(), job.held)});
  elastic.plan = job.state.plan = job.target;
  job.state.step_seconds = step;
}

ElasticJob Simulation::as_elastic(const LiveJob& job) const {
  ElasticJob elastic;
  elastic.id = job.state.id;
  elastic.name = job.state.kind->model;
  elastic.min_gpus = job.state.kind->gpus();
  elastic.max_gpus = gpus_;
  for (const int most : {job.state.kind->max_gpus, policy_.most_gpus()})
    if (most > 0) elastic.max_gpus = std::min(elastic.max_gpus, most);
  elastic.accuracy = job.state.kind->accuracy;
  elastic.model = job.state.kind->shape;
  elastic.model.micro_batches = job.state.kind->micro_batches;
  elastic.held = !job.state.job->elastic;
  elastic.total_steps = static_cast<std::int64_t>(std::ceil(job.state.job->iterations));
  elastic.deadline = job.state.job->deadline;
  return elastic;
}

ElasticJob& Simulation::add_elastic(const LiveJob& job) {
  ElasticJob elastic = as_elastic(job);
  input_.submitted[elastic.id] = job.state.job->submit;
  const auto at = std::lower_bound(input_.jobs.begin(), input_.jobs.end(), elastic.id,
                                   [](const ElasticJob& one, JobId id) { return one.id < id; });
  return *input_.jobs.insert(at, std::move(elastic));
}

bool Simulation::preempts() const { return preempt_ != Preemption::none && policy_.keeps_basic(); }

std::vector<JobId> Simulation::victims_for(const SimulatedJobState& head) const {
  // What was told to end already may be enough for the job, on whichever of its types.
  FreeGpus soon(input_.cluster, [this](JobId owner) { return noticed_.contains(owner); });
  if (take_for(soon, head)) return {};
  std::vector<JobId> candidates;
  for (const JobId extension : input_.extensions)
    if (!noticed_.contains(extension)) candidates.push_back(extension);
  if (preempt_ == Preemption::youngest) std::reverse(candidates.begin(), candidates.end());
  const auto starts = starts_of(head);
  const bool mixed = input_.site->hardware.types.size() > 1;
  for (const BasicPlan* at : starts) {
    auto victims = preempted_for(input_.cluster, head.kind->gpus(), candidates, noticed_, mixed ? at->gpu_type : "");
    if (!victims.empty()) return victims;
  }
  return {};
}

void Simulation::preempt(const std::vector<JobId>& victims) {
  std::map<JobId, std::vector<JobId>> taken;  // by the job that holds the extensions
  for (const JobId extension : victims) {
    noticed_.insert(extension);
    for (const ElasticJob& elastic : input_.jobs)
      if (holds(elastic, extension)) taken[elastic.id].push_back(extension);
  }
  for (const auto& [owner, extensions] : taken) take_back(live_.at(owner), extensions);
}

bool Simulation::holds(const ElasticJob& elastic, JobId extension) {
  return std::any_of(elastic.extensions.begin(), elastic.extensions.end(),
                     [&](const Holding& held) { return held.job == extension; });
}

// Acts like a launcher that gets Slurm's notice. It cancels a redeployment under way, unless that
// has reached its pause or gives up these extensions anyway.
void Simulation::take_back(LiveJob& job, const std::vector<JobId>& extensions) {
  if (job.state.redeploying && !job.target) return;  // the job is ending
  if (job.bases.moving) return;                      // it leaves them afterwards
  if (job.pause_began) return;                       // after the commit the job leaves them
  if (job.target) {
    const auto leaves = [&](JobId id) {
      return std::find(job.leaving.begin(), job.leaving.end(), id) != job.leaving.end();
    };
    if (std::all_of(extensions.begin(), extensions.end(), leaves)) return;
    give_up_growth(job);
  }
  leave(job);
  if (!job.state.redeploying) bases_.go_on(job);  // its base may have been granted meanwhile
}

// Gives up the extensions that Slurm has told to end.
void Simulation::leave(LiveJob& job) {
  const ElasticJob& elastic = *elastic_job(job.state.id);
  Act act{job.state.id, {}, "", {}, 0};
  std::vector<GpuId> left, own;
  for (const Holding& held : elastic.anchor)
    for (const int gpu : held.gpus) own.push_back({held.node, gpu});
  left = own;
  for (const Holding& held : elastic.extensions)
    if (noticed_.contains(held.job)) act.release.push_back(held.job);
    else
      for (const int gpu : held.gpus) left.push_back({held.node, gpu});
  if (act.release.empty()) return;
  job.advance(input_.now);
  act.plan = plan_on_subset(elastic, left);
  // The launcher knows no memory sizes. The job's first plan fits for sure.
  if (!act.plan || !feasible(job, *act.plan))
    act.plan = job.bases.own_plan ? *job.bases.own_plan : basic_on(job.state, own);
  const auto ranks = act.plan->ranks();
  for (const Holding& held : elastic.extensions)
    if (std::none_of(held.gpus.begin(), held.gpus.end(),
                     [&](int gpu) {
                       return std::find(ranks.begin(), ranks.end(), GpuId{held.node, gpu}) != ranks.end();
                     }) &&
        std::find(act.release.begin(), act.release.end(), held.job) == act.release.end())
      act.release.push_back(held.job);
  if (!overlaps()) give_up(job, act);
  enact(job, act);
}

void Simulation::give_up_growth(LiveJob& job) {
  ElasticJob& elastic = *elastic_job(job.state.id);
  job.advance(input_.now);
  for (const JobId extension : job.arriving) drop_extension(job, elastic, extension);
  for (const JobId extension : job.leaving) holders_.no_longer_freeing(elastic, extension);
  job.arriving.clear();
  job.leaving.clear();
  job.target.reset();
  ++job.change_version;
  --job.state.restarts;
  --run_.redeployments;
  job.state.redeploying = false;
  elastic.phase = JobPhase::running;
  job.state.last_change = input_.last_change[job.state.id] = input_.now;
  if (policy_.cooldown() > 0) ask_again(input_.now + policy_.cooldown());
}

}  // namespace espalier::sim
