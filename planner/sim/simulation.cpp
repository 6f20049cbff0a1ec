#include "planner/sim/simulation_state.hpp"

#include <algorithm>
#include <cmath>

#include "planner/core/counted.hpp"
#include "planner/core/error.hpp"

namespace espalier::sim {
namespace {
constexpr int kMostIdleRounds = 1000;
}  // namespace

Simulation::Simulation(std::shared_ptr<const Site> site, const ClusterView& cluster, const std::vector<JobKind>& kinds,
                       const std::vector<SimulatedJob>& jobs, Policy& policy, const SimulationOptions& options)
    : kinds_(kinds),
      jobs_(jobs),
      policy_(policy),
      options_(options),
      queue_(policy.queue().value_or(options.queue), SlurmPriority(cluster, options.slurm)),
      bases_(*this, policy.base_moves()),
      preempt_(options.delays.preempt.value_or(queue_.is_slurm() ? Preemption::oldest : Preemption::none)),
      next_extension_(static_cast<JobId>(jobs.size()) + 1) {
  // A simulated training has all of its GPUs from one Slurm job, as in the papers' systems.
  auto own = std::make_shared<Site>(*site);
  own->hardware.jobs_reach = true;
  input_.site = std::move(own);
  input_.arrivals = &arrivals_;
  input_.cluster = cluster;
  for (std::size_t n = 0; n < cluster.nodes.size(); ++n) {
    gpus_ += static_cast<int>(cluster.nodes[n].gpu_owner.size());
    NodeView& node = input_.cluster.nodes[n];
    node.free_cpus = 16 * static_cast<int>(node.gpu_owner.size());  // never the limiting resource
    node.free_memory_mb = 1L << 40;
  }
  if (policy.needs_elastic_jobs() &&
      std::any_of(jobs.begin(), jobs.end(), [](const auto& job) { return !job.elastic; }))
    throw Error(policy.name() + ": takes every job as elastic; leave it out, or make all jobs elastic");
  if (policy.needs_coefficients() &&
      std::any_of(jobs.begin(), jobs.end(), [&](const auto& job) { return kinds[job.kind].measured != nullptr; }))
    throw Error(policy.name() +
                ": plans by the performance model, which measured times do not give; leave it out, or simulate without "
                "--profile");
  holders_.know_nodes();
  run_.policy = policy.name();
  run_.order = !policy.owns_queue()             ? to_string(queue_.order())
               : policy.admits_in_queue_order() ? "own, " + to_string(queue_.order())
                                                : "own";
  run_.gpus = gpus_;
  run_.jobs.resize(jobs.size());
}

PolicyRun Simulation::run() {
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
    // Nothing is under way, and only rounds are to come. In them a policy may still wait a while
    // before it starts a job.
    idle_rounds_ = round && events_.empty() && allocated_ == 0 ? idle_rounds_ + 1 : 0;
    if (idle_rounds_ > kMostIdleRounds) break;
    plan_round();
    note_level();
    if (done_ != complete && options_.progress)
      options_.progress(static_cast<double>(done_) / static_cast<double>(jobs_.size()));
    complete = done_;
  }
  if (done_ != jobs_.size())
    throw Error(policy_.name() + ": " + counted(static_cast<std::int64_t>(jobs_.size() - done_), "job") +
                " left waiting for ever: nothing starts what waits");
  return std::move(run_);
}

void Simulation::plan_round() {
  const double period = policy_.period();
  if (period == 0 || period == kNever || round_pending_ || live_.empty()) return;
  round_pending_ = true;
  events_.add({(std::floor(input_.now / period) + 1) * period, EventKind::round, 0, 0});
}

void Simulation::note_level() {
  if (run_.levels.empty() || run_.levels.back().gpus != allocated_) run_.levels.push_back({input_.now, allocated_});
}

PolicyRun simulate(std::shared_ptr<const Site> site, const ClusterView& cluster, const std::vector<JobKind>& kinds,
                   const std::vector<SimulatedJob>& jobs, Policy& policy, const SimulationOptions& options) {
  return Simulation(std::move(site), cluster, kinds, jobs, policy, options).run();
}

}  // namespace espalier::sim
