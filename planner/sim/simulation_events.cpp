#include "planner/sim/simulation_state.hpp"

#include <algorithm>
#include <cmath>

#include "planner/core/error.hpp"
#include "planner/core/model/assumed_range.hpp"
#include "planner/sim/random.hpp"

namespace espalier::sim {

bool Simulation::happen(const Event& event) {
  if (event.kind == EventKind::arrival) return arrive(jobs_[event.job - 1]);
  if (event.kind == EventKind::retry) {
    retry_pending_ = false;
    if (wanted_ > input_.now) ask_again(wanted_);
    input_.trigger = Trigger::timer;
    return true;
  }
  if (event.kind == EventKind::queue) {
    if (input_.now >= queue_at_) queue_at_ = kNever;
    input_.trigger = Trigger::job_started;
    serve_queue();
    return true;
  }
  if (event.kind == EventKind::backfill) {
    backfill_pending_ = false;
    input_.trigger = Trigger::job_started;
    return backfill_by_reservations();
  }
  const auto found = live_.find(event.job);
  if (found == live_.end()) return false;
  LiveJob& job = found->second;
  switch (event.kind) {
    case EventKind::completion:
      return event.version == job.speed_version && train_no_more(job);
    case EventKind::leave:
      return complete(job);
    case EventKind::begin:
      return begin(job);
    case EventKind::pause:
      return event.version == job.change_version && pause(job);
    case EventKind::commit:
      return event.version == job.change_version && commit(job);
    case EventKind::profile:
      return profiled(job);
    case EventKind::base:
      return bases_.happen(job, static_cast<JobId>(event.version));
    case EventKind::settle:
      return job.state.plan && event.version == elastic_job(event.job)->generation && settled(job);
    default:
      return false;
  }
}

bool Simulation::arrive(const SimulatedJob& job) {
  input_.trigger = Trigger::job_submitted;
  LiveJob& live = live_[job.id];
  live.state.id = job.id;
  live.state.job = &job;
  live.state.kind = &kinds_[job.kind];
  live.state.iterations_left = job.iterations;
  arrivals_.add({input_.now, live.state.kind->gpus()});
  live.state.coefficients = &live.state.kind->coefficients;
  if (options_.prediction_error > 0) {
    live.known = std::make_unique<JobCoefficients>(mistaken(job));
    live.state.coefficients = live.known.get();
  }
  present_.insert(std::lower_bound(present_.begin(), present_.end(), job.id,
                                   [](const SimulatedJobState* one, JobId id) { return one->id < id; }),
                  &live.state);
  queue_.add(live.state);
  bases_.arrived(live);
  return true;
}

// Sizes stay true: a plan that does not fit into memory is not slow but impossible.
JobCoefficients Simulation::mistaken(const SimulatedJob& job) const {
  JobCoefficients known = kinds_[job.kind].coefficients;
  Random random(options_.seed * 0x9e3779b97f4a7c15ULL + job.id);
  const auto factor = [&] { return std::max(0.1, 1 + options_.prediction_error * random.normal()); };
  for (GpuCoefficients& gpu : known.gpu) {
    gpu.comp *= factor();
    gpu.optim *= factor();
  }
  return known;
}

bool Simulation::begin(LiveJob& job) {
  job.advance(input_.now);
  job.state.redeploying = false;
  ElasticJob& elastic = *elastic_job(job.state.id);
  run_on(job, elastic, std::move(*job.target), job.target_step_seconds);
  job.target.reset();
  input_.last_change.erase(job.state.id);  // a start is no change, so no cooldown follows
  elastic.phase = JobPhase::running;
  elastic.step_seconds = 0;
  job.measured_types.clear();
  if (policy_.shares_profiles()) job.measured_types = measured_types_[job.state.job->kind];
  if (was_measured(job)) {
    job.wide_start = true;
    elastic.step_seconds = job.state.step_seconds;
    learn(job);
    bases_.go_on(job);
    return true;
  }
  await_profile(job);
  bases_.go_on(job);
  return false;
}

// Of the plan on which it runs: on one of its GPU types, as the daemon counts it (recalled() in planner/daemon).
bool Simulation::was_measured(const LiveJob& job) const {
  const std::set<int> types = types_of(*job.state.plan);
  return std::any_of(types.begin(), types.end(), [&](int type) { return job.measured_types.contains(type); });
}

// What the daemon would scale from a measured type counts as assumed. Kinds of jobs follow from the data sheets of the
// GPU types, so that scaling would give the same values.
void Simulation::learn(const LiveJob& job) {
  JobCoefficients& known = input_.coefficients[job.state.id];
  known = *job.state.coefficients;
  count_as_measured(known);
  for (std::size_t type = 0; type < known.gpu.size(); ++type) {
    GpuCoefficients& gpu = known.gpu[type];
    if (!job.measured_types.contains(static_cast<int>(type)))
      gpu.assumed_comp = gpu.assumed_backward = gpu.assumed_optim = gpu.assumed_overlap = true;
  }
}

bool Simulation::on_new_type(const LiveJob& job) const {
  const std::set<int> types = types_of(*job.state.plan);
  return !std::includes(job.measured_types.begin(), job.measured_types.end(), types.begin(), types.end());
}

void Simulation::await_profile(const LiveJob& job) {
  const double until = options_.redeploy.profile_seconds + options_.redeploy.profile_steps * job.state.step_seconds;
  events_.add({input_.now + until, EventKind::profile, job.state.id, 0});
}

bool Simulation::profiled(LiveJob& job) {
  if (!job.state.plan) return false;
  elastic_job(job.state.id)->step_seconds = job.state.step_seconds;
  if (options_.redeploy.settle_steps <= 0) return settled(job);
  await_settling(job);
  return tell_profile(job);
}

// Profiles of one plan must agree, so a change of plans starts the wait anew.
void Simulation::await_settling(const LiveJob& job) {
  events_.add({input_.now + options_.redeploy.settle_steps * job.state.step_seconds, EventKind::settle, job.state.id,
               elastic_job(job.state.id)->generation});
}

bool Simulation::settled(LiveJob& job) {
  const std::set<int> types = types_of(*job.state.plan);
  job.measured_types.insert(types.begin(), types.end());
  measured_types_[job.state.job->kind].insert(types.begin(), types.end());
  learn(job);
  return tell_profile(job);
}

bool Simulation::tell_profile(const LiveJob& job) {
  input_.trigger = Trigger::profile_ready;
  const auto changed = input_.last_change.find(job.state.id);
  if (changed == input_.last_change.end()) return true;
  if (const double rested = changed->second + policy_.cooldown(); rested > input_.now) ask_again(rested);
  return true;
}

// Only one repeated question is under way at a time. The first is the earliest. When it has come,
// the latest time asked for meanwhile follows.
void Simulation::ask_again(double time) {
  wanted_ = std::max(wanted_, time);
  if (retry_pending_) return;
  retry_pending_ = true;
  events_.add({time, EventKind::retry, 0, 0});
}

bool Simulation::pause(LiveJob& job) {
  job.advance(input_.now);
  job.training = false;
  job.pause_began = input_.now;
  ++job.speed_version;
  return false;
}

bool Simulation::commit(LiveJob& job) {
  job.advance(input_.now);
  input_.trigger = Trigger::generation_done;
  if (job.pause_began) input_.redeploy_seconds[job.state.id] = input_.now - *job.pause_began;
  job.pause_began.reset();
  ElasticJob& elastic = *elastic_job(job.state.id);
  for (const JobId extension : job.leaving) {
    holders_.no_longer_freeing(elastic, extension);
    drop_extension(job, elastic, extension);
  }
  job.leaving.clear();
  job.arriving.clear();
  if (!policy_.keeps_basic()) hold_exactly(job, elastic, *job.target);
  if (job.bases.moving) bases_.take_second(job, elastic);
  run_on(job, elastic, std::move(*job.target), job.target_step_seconds);
  job.target.reset();
  job.state.redeploying = false;
  elastic.phase = JobPhase::running;
  ++elastic.generation;
  const bool known = input_.coefficients.contains(job.state.id);
  const bool news = known && on_new_type(job);
  if (options_.redeploy.settle_steps > 0 && (news || !known)) await_settling(job);
  else if (news) await_profile(job);
  if (policy_.cooldown() > 0) ask_again(input_.now + policy_.cooldown());
  if (!bases_.go_on(job) && !noticed_.empty()) leave(job);
  return true;
}

bool Simulation::train_no_more(LiveJob& job) {
  bases_.stop_waiting(job);
  if (options_.delays.end_seconds <= 0) return complete(job);
  job.advance(input_.now);
  job.training = false;
  ++job.speed_version;
  ++job.change_version;  // cancels a redeployment under way
  job.target.reset();
  job.state.redeploying = true;
  elastic_job(job.state.id)->phase = JobPhase::ending;
  events_.add({input_.now + options_.delays.end_seconds, EventKind::leave, job.state.id, 0});
  return false;
}

// On the type that it runs on, else as its kind says.
static double alone_seconds(const SimulatedJobState& job) {
  const BasicPlan* at = job.kind->on_type(job.job->type);
  return job.job->iterations * (at != nullptr ? at->step_seconds : job.kind->step_seconds);
}

bool Simulation::complete(LiveJob& job) {
  job.advance(input_.now);
  ESPALIER_INVARIANT(job.state.iterations_left * job.state.step_seconds < 1e-3);
  input_.trigger = Trigger::gpus_released;
  const JobId id = job.state.id;
  JobOutcome& outcome = run_.jobs[id - 1];
  outcome = {id,
             job.state.job->submit,
             job.state.started,
             input_.now,
             job.state.kind->gpus(),
             job.state.restarts,
             job.state.most_gpus,
             job.state.gpu_seconds,
             job.lost_gpu_seconds,
             job.state.job->elastic,
             alone_seconds(job.state),
             job.state.job->deadline,
             job.bases.moved,
             job.bases.started_smaller};
  ElasticJob& elastic = *elastic_job(id);
  for (const Holding& held : elastic.anchor) holders_.own(held, 0);
  for (const Holding& held : elastic.extensions) {
    holders_.own(held, 0);
    holders_.forget_extension(held.job);
    noticed_.erase(held.job);
  }
  for (const JobId leaving : job.leaving) holders_.no_longer_freeing(elastic, leaving);
  bases_.end(job);
  allocated_ -= job.held;
  input_.jobs.erase(input_.jobs.begin() + (&elastic - input_.jobs.data()));
  forget(id);
  std::erase(present_, &job.state);
  live_.erase(id);
  ++done_;
  return true;
}

}  // namespace espalier::sim
