#include "tests/bench/planner/decisions.hpp"

#include <algorithm>

#include "planner/core/schedule/move.hpp"
#include "tests/bench/planner/daemon_decision.hpp"
#include "tests/bench/planner/stopwatch.hpp"

namespace espalier::bench {
namespace {

constexpr int kColdStarts = 5;

SchedulerOptions scheduler_options(const DecisionRun& run, bool eager) {
  SchedulerOptions result;
  result.as_printed = run.as_printed;
  if (run.arena) result.arena.emplace();
  result.eager = eager;
  result.cooldown_seconds = 0;
  return result;
}

// Sum of |R0| (T(next) / T(R0) - 1) over the jobs that grow, in GPUs. Algorithm 2 maximizes this.
double total_gain(const PlanningInput& input, const std::vector<Decision>& decisions) {
  double gain = 0;
  for (const Decision& decision : decisions)
    for (const ElasticJob& job : input.jobs)
      if (job.id == decision.job && decision.kind == DecisionKind::grow)
        gain += job.plan->gpu_count() * (job.step_seconds / decision.predicted_step_seconds - 1);
  return gain;
}

class Measurement {
 public:
  explicit Measurement(const DecisionRun& run)
      : run_(run), cluster_(run.cluster), planner_(scheduler_options(run, false)) {}

  DecisionFigures all() {
    while (!done()) {
      cluster_.end_one();
      decide();
      while (!done() && cluster_.submit_one()) {
        decide();
        if (!cluster_.start_waiting() && !cluster_.expects_job()) break;
      }
    }
    return std::move(figures_);
  }

 private:
  bool done() const { return figures_.ms.size() >= static_cast<std::size_t>(run_.decisions); }

  void decide() {
    const std::size_t number = figures_.ms.size();
    const auto every = static_cast<std::size_t>(std::max(1, run_.decisions / kColdStarts));
    if (number > 0 && number % every == 0) start_cold();
    const Stopwatch watch;
    const auto decisions = planner_.decide(cluster_);
    figures_.cpu_ms.push_back(watch.cpu_ms());
    figures_.ms.push_back(watch.wall_ms());
    if (number == 0) figures_.cold_start_ms.push_back(figures_.ms.back());
    compare(decisions);
    for (const Decision& d : decisions) {
      figures_.grown += d.kind == DecisionKind::grow;
      figures_.shrunk += d.kind == DecisionKind::shrink;
      figures_.moved += moves_base(d);
      figures_.replanned += d.kind == DecisionKind::migrate && !moves_base(d);
    }
    figures_.jobs += cluster_.jobs().size();
    figures_.idle += static_cast<std::size_t>(cluster_.idle_gpus());
    figures_.waiting += cluster_.slurm().cluster.waiting.size();
    figures_.load += cluster_.load();
    if (run_.watch) run_.watch(planner_.input(), decisions);
    cluster_.apply(decisions);
  }

  // Its decisions are those of a planner that has restarted, and are dropped.
  void start_cold() {
    DaemonDecision fresh(scheduler_options(run_, false));
    const Stopwatch watch;
    fresh.decide(cluster_);
    figures_.cold_start_ms.push_back(watch.wall_ms());
  }

  void compare(const std::vector<Decision>& decisions) {
    if (cluster_.trigger() != Trigger::gpus_released) return;
    ++figures_.releases;
    if (run_.eager_every <= 0 || figures_.releases % static_cast<std::size_t>(run_.eager_every) != 0) return;
    const auto eager = make_scheduler(scheduler_options(run_, true));
    figures_.eager_gain += total_gain(planner_.input(), eager->decide(planner_.input()));
    figures_.gain += total_gain(planner_.input(), decisions);
    ++figures_.compared;
  }

  const DecisionRun& run_;
  BusyCluster cluster_;
  DaemonDecision planner_;
  DecisionFigures figures_;
};

}  // namespace

DecisionFigures measure_decisions(const DecisionRun& run) { return Measurement(run).all(); }

}  // namespace espalier::bench
