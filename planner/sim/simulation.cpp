#include "planner/sim/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "planner/core/error.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/sim/base_queue.hpp"
#include "planner/sim/event_queue.hpp"
#include "planner/sim/free_gpus.hpp"
#include "planner/sim/gpu_holders.hpp"
#include "planner/sim/random.hpp"

namespace espalier::sim {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kMostIdleRounds = 1000;

class Simulation {
 public:
  Simulation(std::shared_ptr<const Site> site, const ClusterView& cluster, const std::vector<JobKind>& kinds,
             const std::vector<SimulatedJob>& jobs, Policy& policy, const SimulationOptions& options)
      : kinds_(kinds),
        jobs_(jobs),
        policy_(policy),
        options_(options),
        queue_(policy.queue().value_or(options.queue)),
        next_extension_(static_cast<JobId>(jobs.size()) + 1) {
    input_.site = std::move(site);
    input_.cluster = cluster;
    for (std::size_t n = 0; n < cluster.nodes.size(); ++n) {
      gpus_ += static_cast<int>(cluster.nodes[n].gpu_owner.size());
      NodeView& node = input_.cluster.nodes[n];
      node.free_cpus = 16 * static_cast<int>(node.gpu_owner.size());  // never what is scarce
      node.free_memory_mb = 1L << 40;
    }
    holders_.know_nodes();
    run_.policy = policy.name();
    run_.gpus = gpus_;
    run_.jobs.resize(jobs.size());
  }

  PolicyRun run() {
    for (const SimulatedJob& job : jobs_) events_.add({job.submit, EventKind::arrival, job.id, 0});
    std::size_t complete = 0;
    while (!events_.empty()) {
      input_.now = events_.next().time;
      bool asked = false, round = false;
      while (!events_.empty() && events_.next().time <= input_.now) {
        const Event event = events_.next();
        events_.pop();
        if (event.kind == EventKind::round) round = true;
        else asked = happen(event) || asked;
      }
      if (asked && !policy_.owns_queue()) start_waiting();
      if (!live_.empty() && (policy_.period() == 0 ? asked : round)) think();
      if (round) round_pending_ = false;
      // Nothing is under way and nothing to come but rounds, in which a policy may wait a while before it starts a job.
      idle_rounds_ = round && events_.empty() && allocated_ == 0 ? idle_rounds_ + 1 : 0;
      if (idle_rounds_ > kMostIdleRounds) break;
      plan_round();
      note_level();
      if (done_ != complete && options_.progress)
        options_.progress(static_cast<double>(done_) / static_cast<double>(jobs_.size()));
      complete = done_;
    }
    if (done_ != jobs_.size())
      throw Error(policy_.name() + ": " + std::to_string(jobs_.size() - done_) +
                  " jobs wait for ever: nothing starts them");
    return std::move(run_);
  }

 private:
  // ---- events; true: something that a policy may want to know
  bool happen(const Event& event) {
    if (event.kind == EventKind::arrival) return arrive(jobs_[event.job - 1]);
    if (event.kind == EventKind::retry) {
      retry_pending_ = false;
      if (wanted_ > input_.now) ask_again(wanted_);
      input_.trigger = Trigger::timer;
      return true;
    }
    if (event.kind == EventKind::queue) {
      queue_pending_ = false;
      input_.trigger = Trigger::job_started;
      serve_queue();
      return true;
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
        begin(job);
        return false;
      case EventKind::pause:
        return event.version == job.change_version && pause(job);
      case EventKind::commit:
        return event.version == job.change_version && commit(job);
      case EventKind::profile:
        return profiled(job);
      case EventKind::settle:
        return job.state.plan && event.version == elastic_job(event.job)->generation && settled(job);
      default:
        return false;
    }
  }

  bool arrive(const SimulatedJob& job) {
    input_.trigger = Trigger::job_submitted;
    LiveJob& live = live_[job.id];
    live.state.id = job.id;
    live.state.job = &job;
    live.state.kind = &kinds_[job.kind];
    live.state.iterations_left = job.iterations;
    live.state.coefficients = &live.state.kind->coefficients;
    if (options_.prediction_error > 0) {
      live.known = std::make_unique<JobCoefficients>(mistaken(job));
      live.state.coefficients = live.known.get();
    }
    present_.insert(std::lower_bound(present_.begin(), present_.end(), job.id,
                                     [](const SimulatedJobState* one, JobId id) { return one->id < id; }),
                    &live.state);
    queue_.add(live.state);
    return true;
  }

  // Sizes stay true: a plan that does not fit into memory would not be a slow one, but none.
  JobCoefficients mistaken(const SimulatedJob& job) const {
    JobCoefficients known = kinds_[job.kind].coefficients;
    Random random(options_.seed * 0x9e3779b97f4a7c15ULL + job.id);
    const auto factor = [&] { return std::max(0.1, 1 + options_.prediction_error * random.normal()); };
    for (GpuCoefficients& gpu : known.gpu) {
      gpu.comp *= factor();
      gpu.optim *= factor();
    }
    return known;
  }

  bool train_no_more(LiveJob& job) {
    if (options_.delays.end_seconds <= 0) return complete(job);
    job.advance(input_.now);
    job.training = false;
    ++job.speed_version;
    ++job.change_version;  // a redeployment under way comes to nothing
    job.target.reset();
    job.state.redeploying = true;
    elastic_job(job.state.id)->phase = JobPhase::ending;
    events_.add({input_.now + options_.delays.end_seconds, EventKind::leave, job.state.id, 0});
    return false;
  }

  bool complete(LiveJob& job) {
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
               job.lost_gpu_seconds};
    ElasticJob& elastic = *elastic_job(id);
    for (const Holding& held : elastic.anchor) holders_.own(held, 0);
    for (const Holding& held : elastic.extensions) {
      holders_.own(held, 0);
      holders_.forget_extension(held.job);
      noticed_.erase(held.job);
    }
    for (const JobId leaving : job.leaving) holders_.no_longer_freeing(elastic, leaving);
    allocated_ -= job.held;
    input_.jobs.erase(input_.jobs.begin() + (&elastic - input_.jobs.data()));
    forget(id);
    std::erase(present_, &job.state);
    live_.erase(id);
    ++done_;
    return true;
  }

  bool pause(LiveJob& job) {
    job.advance(input_.now);
    job.training = false;
    job.pause_began = input_.now;
    ++job.speed_version;
    return false;
  }

  bool commit(LiveJob& job) {
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
    run_on(job, elastic, std::move(*job.target), job.target_step_seconds);
    job.target.reset();
    job.state.redeploying = false;
    elastic.phase = JobPhase::running;
    ++elastic.generation;
    const bool known = input_.coefficients.contains(job.state.id);
    if (options_.redeploy.settle_steps > 0 && !known) await_settling(job);
    if (policy_.cooldown() > 0) ask_again(input_.now + policy_.cooldown());
    if (!noticed_.empty()) leave(job);
    return true;
  }

  bool profiled(LiveJob& job) {
    if (!job.state.plan) return false;
    elastic_job(job.state.id)->step_seconds = job.state.step_seconds;
    if (options_.redeploy.settle_steps <= 0) return settled(job);
    await_settling(job);
    return tell_profile(job);
  }

  // Profiles of one plan must agree: a change of plans begins anew.
  void await_settling(const LiveJob& job) {
    events_.add({input_.now + options_.redeploy.settle_steps * job.state.step_seconds, EventKind::settle, job.state.id,
                 elastic_job(job.state.id)->generation});
  }

  bool settled(const LiveJob& job) {
    input_.coefficients[job.state.id] = *job.state.coefficients;
    return tell_profile(job);
  }

  bool tell_profile(const LiveJob& job) {
    input_.trigger = Trigger::profile_ready;
    const auto changed = input_.last_change.find(job.state.id);
    if (changed == input_.last_change.end()) return true;
    if (const double rested = changed->second + policy_.cooldown(); rested > input_.now) ask_again(rested);
    return true;
  }

  // One question is under way at a time: the earliest, and when it has come the latest that was asked for meanwhile.
  void ask_again(double time) {
    wanted_ = std::max(wanted_, time);
    if (retry_pending_) return;
    retry_pending_ = true;
    events_.add({time, EventKind::retry, 0, 0});
  }

  void plan_round() {
    const double period = policy_.period();
    if (period == 0 || period == kNever || round_pending_ || live_.empty()) return;
    round_pending_ = true;
    events_.add({(std::floor(input_.now / period) + 1) * period, EventKind::round, 0, 0});
  }

  // ---- the base queue
  void start_waiting() {
    if (queue_.empty() || queue_pending_) return;
    const bool submitted = input_.trigger == Trigger::job_submitted;
    const double delay = submitted ? options_.delays.queue_seconds : options_.delays.release_seconds;
    if (delay <= 0) return serve_queue();
    const SimulatedJobState& head = *queue_.waiting().front();
    const bool slurm_acts = preempts() && (!live_.at(head.id).seen_by_slurm || !victims_for(head).empty());
    if (!slurm_acts && !fits(head)) return;
    queue_pending_ = true;
    events_.add({input_.now + delay, EventKind::queue, 0, 0});
  }

  bool fits(const SimulatedJobState& job) const { return FreeGpus(input_.cluster).take(job.kind->gpus()).has_value(); }

  void serve_queue() {
    start_those_that_fit();
    if (!preempts()) return;
    for (const SimulatedJobState* job : queue_.waiting()) live_.at(job->id).seen_by_slurm = true;
    for (std::size_t before = 0; queue_.waiting().size() != before && !queue_.empty(); start_those_that_fit()) {
      before = queue_.waiting().size();
      preempt_for(*queue_.waiting().front());
    }
  }

  // ---- Slurm's own preemption
  bool preempts() const { return options_.delays.preempt != Preemption::none && policy_.keeps_basic(); }

  std::vector<JobId> victims_for(const SimulatedJobState& head) const {
    std::vector<JobId> candidates;
    for (const JobId extension : input_.extensions)
      if (!noticed_.contains(extension)) candidates.push_back(extension);
    if (options_.delays.preempt == Preemption::youngest) std::reverse(candidates.begin(), candidates.end());
    return preempted_for(input_.cluster, head.kind->gpus(), candidates, noticed_);
  }

  void preempt_for(const SimulatedJobState& head) {
    std::map<JobId, std::vector<JobId>> taken;  // by the job that holds them
    for (const JobId extension : victims_for(head)) {
      noticed_.insert(extension);
      for (const ElasticJob& elastic : input_.jobs)
        if (holds(elastic, extension)) taken[elastic.id].push_back(extension);
    }
    for (const auto& [owner, extensions] : taken) take_back(live_.at(owner), extensions);
  }

  static bool holds(const ElasticJob& elastic, JobId extension) {
    return std::any_of(elastic.extensions.begin(), elastic.extensions.end(),
                       [&](const Holding& held) { return held.job == extension; });
  }

  // As a launcher answers Slurm's notice: what it was about to do is given up unless it is beyond that, or does it.
  void take_back(LiveJob& job, const std::vector<JobId>& extensions) {
    if (job.state.redeploying && !job.target) return;  // it ends
    if (job.pause_began) return;                       // after the commit
    if (job.target) {
      const auto leaves = [&](JobId id) {
        return std::find(job.leaving.begin(), job.leaving.end(), id) != job.leaving.end();
      };
      if (std::all_of(extensions.begin(), extensions.end(), leaves)) return;
      give_up_growth(job);
    }
    leave(job);
  }

  // What Slurm has told to go.
  void leave(LiveJob& job) {
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
    // The launcher knows no memory sizes; the plan that the job began with fits for sure.
    if (!act.plan || !feasible(job, *act.plan)) act.plan = basic_plan(*job.state.kind, own);
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

  void give_up_growth(LiveJob& job) {
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

  void start_those_that_fit() {
    if (queue_.empty()) return;
    FreeGpus free(input_.cluster, {}, [this](JobId owner) { return holders_.is_extension(owner); });
    while (!queue_.empty()) {
      const SimulatedJobState& head = *queue_.waiting().front();
      const auto gpus = free.take(head.kind->gpus());
      if (!gpus) return;
      start(live_.at(head.id), basic_plan(*head.kind, *gpus));
    }
  }

  void start(LiveJob& job, Plan plan) {
    const double step = true_step(job, plan);
    queue_.remove(job.state.id);
    job.advance(input_.now);
    ElasticJob& elastic = add_elastic(job);
    elastic.anchor = holdings_of(plan, job.state.id);
    for (const Holding& held : elastic.anchor) holders_.own(held, job.state.id);
    job.held = plan.gpu_count();
    allocated_ += job.held;
    if (job.state.started < 0) job.state.started = input_.now;
    if (!job.stopped_before) {
      elastic.plan = job.state.plan = job.target = std::move(plan);
      job.state.step_seconds = job.target_step_seconds = step;
      if (options_.delays.launch_seconds <= 0) return begin(job);
      job.state.redeploying = true;
      elastic.phase = JobPhase::launching;
      events_.add({input_.now + options_.delays.launch_seconds, EventKind::begin, job.state.id, 0});
      return;
    }
    begin_change(job, elastic, std::move(plan), step,
                 {0, resume_seconds(options_.redeploy, job.state.kind->coefficients, job.held)});
    elastic.plan = job.state.plan = job.target;
    job.state.step_seconds = step;
  }

  void begin(LiveJob& job) {
    job.advance(input_.now);
    job.state.redeploying = false;
    ElasticJob& elastic = *elastic_job(job.state.id);
    run_on(job, elastic, std::move(*job.target), job.target_step_seconds);
    job.target.reset();
    input_.last_change.erase(job.state.id);  // no change: nothing to rest from
    elastic.phase = JobPhase::running;
    elastic.step_seconds = 0;
    const double until = options_.redeploy.profile_seconds + options_.redeploy.profile_steps * job.state.step_seconds;
    events_.add({input_.now + until, EventKind::profile, job.state.id, 0});
  }

  ElasticJob& add_elastic(const LiveJob& job) {
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
    elastic.total_steps = static_cast<std::int64_t>(std::ceil(job.state.job->iterations));
    const auto at = std::lower_bound(input_.jobs.begin(), input_.jobs.end(), elastic.id,
                                     [](const ElasticJob& one, JobId id) { return one.id < id; });
    return *input_.jobs.insert(at, std::move(elastic));
  }

  // ---- the policy
  void think() {
    if (policy_.keeps_basic()) {
      input_.cluster.waiting = shown_waiting(queue_, input_.cluster, input_.extensions, [this](JobId owner) {
        const auto found = live_.find(owner);
        return found == live_.end() ? kNever : end_of(found->second);
      });
      if (preempts())
        for (WaitingJob& waiting : input_.cluster.waiting) waiting.left_to_slurm = !live_.at(waiting.id).seen_by_slurm;
    } else {
      input_.cluster.waiting.clear();
      for (const SimulatedJobState* job : queue_.waiting())
        input_.cluster.waiting.push_back({job->id, job->kind->gpus(), 1, {}, {}, 0});
    }
    for (auto& [id, job] : live_) {
      job.advance(input_.now);
      if (job.state.plan)
        elastic_job(id)->step = static_cast<std::int64_t>(job.state.job->iterations - job.state.iterations_left);
    }
    const double begin = options_.clock ? options_.clock() : 0;
    const auto acts = policy_.decide({input_, present_});
    if (options_.clock) run_.latencies.push_back(options_.clock() - begin);
    ++run_.decisions;
    apply(acts);
  }

  double end_of(const LiveJob& job) const {
    return job.state.iterations_left * job.state.step_seconds + std::max(job.since, input_.now) +
           options_.delays.end_seconds;
  }

  [[noreturn]] void refuse(const Act& act, const std::string& why) const {
    throw Error(policy_.name() + ": what it decided for job " + std::to_string(act.job) + " cannot be: " + why);
  }

  void apply(const std::vector<Act>& acts) {
    std::set<JobId> seen;
    for (const Act& act : acts) {
      const auto found = live_.find(act.job);
      if (found == live_.end()) refuse(act, "there is no such job");
      if (found->second.state.redeploying) refuse(act, "it is being redeployed");
      if (!seen.insert(act.job).second) refuse(act, "it is named twice");
      if (!act.plan && !found->second.state.plan) refuse(act, "it does not run");
    }
    // GPUs change hands at once where the pause begins at once: first all that go, then all that come.
    if (!overlaps())
      for (const Act& act : acts) give_up(live_.at(act.job), act);
    for (const Act& act : acts)
      if (act.plan) enact(live_.at(act.job), act);
    if (!acts.empty() && !policy_.owns_queue()) start_waiting();
  }

  bool overlaps() const { return policy_.redeployment() != Method::checkpoint; }

  void give_up(LiveJob& job, const Act& act) {
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

  void stop(LiveJob& job) {
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
    job.state.last_change = input_.now;
    input_.jobs.erase(input_.jobs.begin() + (&elastic - input_.jobs.data()));
    forget(job.state.id);
    queue_.add(job.state);
  }

  void enact(LiveJob& job, const Act& act) {
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
    cost.overlap_seconds += act.thought_seconds;
    if (policy_.keeps_basic()) {
      extend(job, elastic, act);
      if (!job.arriving.empty()) cost.overlap_seconds += options_.delays.acquire_seconds;
    } else {
      const auto wanted = holdings_of(*act.plan, act.job);
      check_idle(act, wanted, {act.job});
      // Until the old plan has ended it needs its own GPUs as well.
      for (const Holding& held : wanted) holders_.own(held, act.job);
      elastic.anchor = overlaps() ? merged(elastic.anchor, wanted) : wanted;
      recount(job, elastic);
    }
    begin_change(job, elastic, *act.plan, step, cost);
  }

  void begin_change(LiveJob& job, ElasticJob& elastic, Plan plan, double step, const RedeployCost& cost) {
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

  // New GPUs come as one extension per node; what is released goes when the redeployment ends.
  void extend(LiveJob& job, ElasticJob& elastic, const Act& act) {
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

  const Holding& check_holds(const Act& act, const ElasticJob& elastic, JobId extension) const {
    for (const Holding& held : elastic.extensions)
      if (held.job == extension) return held;
    refuse(act, "it releases extension " + std::to_string(extension) + ", which it does not hold");
  }

  void check_idle(const Act& act, const std::vector<Holding>& wanted, const std::set<JobId>& or_owned_by) {
    if (const auto why = holders_.obstacle(wanted, or_owned_by)) refuse(act, *why);
  }

  // ---- state
  Prediction predict(const LiveJob& job, const Plan& plan) const {
    return evaluate_plan(input_.site->hardware, input_.site->topology, job.state.kind->coefficients, plan);
  }
  bool feasible(const LiveJob& job, const Plan& plan) const { return predict(job, plan).feasible; }
  double true_step(const LiveJob& job, const Plan& plan) const {
    const Prediction prediction = predict(job, plan);
    if (!prediction.feasible)
      throw Error(policy_.name() + ": job " + std::to_string(job.state.id) + " (" + job.state.kind->model +
                  ") cannot run on " + describe(plan) + ": " + prediction.why_not);
    return prediction.exact_ms / 1000;
  }

  void run_on(LiveJob& job, ElasticJob& elastic, Plan plan, double step) {
    elastic.plan = plan;
    elastic.step_seconds = step;
    job.state.most_gpus = std::max(job.state.most_gpus, plan.gpu_count());
    job.state.plan = std::move(plan);
    job.state.step_seconds = step;
    job.state.last_change = input_.now;
    input_.last_change[job.state.id] = input_.now;
    job.training = true;
    ++job.speed_version;
    events_.add({job.expected_end(input_.now), EventKind::completion, job.state.id, job.speed_version});
  }

  void hold_exactly(LiveJob& job, ElasticJob& elastic, const Plan& plan) {
    for (const Holding& held : elastic.anchor) holders_.own(held, 0);
    elastic.anchor = holdings_of(plan, job.state.id);
    for (const Holding& held : elastic.anchor) holders_.own(held, job.state.id);
    recount(job, elastic);
  }

  void recount(LiveJob& job, const ElasticJob& elastic) {
    int held = 0;
    for (const auto* holdings : {&elastic.anchor, &elastic.extensions})
      for (const Holding& one : *holdings) held += static_cast<int>(one.gpus.size());
    allocated_ += held - job.held;
    job.held = held;
  }

  void drop_extension(LiveJob& job, ElasticJob& elastic, JobId extension) {
    noticed_.erase(extension);
    holders_.drop_extension(elastic, extension);
    recount(job, elastic);
  }
  void forget(JobId id) {
    input_.coefficients.erase(id);
    input_.last_change.erase(id);
    input_.redeploy_seconds.erase(id);
  }
  ElasticJob* elastic_job(JobId id) {
    const auto at = std::lower_bound(input_.jobs.begin(), input_.jobs.end(), id,
                                     [](const ElasticJob& one, JobId wanted) { return one.id < wanted; });
    ESPALIER_INVARIANT(at != input_.jobs.end() && at->id == id);
    return &*at;
  }
  void note_level() {
    if (run_.levels.empty() || run_.levels.back().gpus != allocated_) run_.levels.push_back({input_.now, allocated_});
  }

  const std::vector<JobKind>& kinds_;
  const std::vector<SimulatedJob>& jobs_;
  Policy& policy_;
  const SimulationOptions& options_;
  PlanningInput input_;
  GpuHolders holders_{input_};
  std::map<JobId, LiveJob> live_;
  std::vector<const SimulatedJobState*> present_;
  BaseQueue queue_;
  EventQueue events_;
  JobId next_extension_;
  std::set<JobId> noticed_;  // extensions that Slurm has told to go
  int gpus_ = 0, allocated_ = 0, idle_rounds_ = 0;
  std::size_t done_ = 0;
  double wanted_ = 0;
  bool retry_pending_ = false, round_pending_ = false, queue_pending_ = false;
  PolicyRun run_;
};

}  // namespace

PolicyRun simulate(std::shared_ptr<const Site> site, const ClusterView& cluster, const std::vector<JobKind>& kinds,
                   const std::vector<SimulatedJob>& jobs, Policy& policy, const SimulationOptions& options) {
  return Simulation(std::move(site), cluster, kinds, jobs, policy, options).run();
}

}  // namespace espalier::sim
