// The first scheduler: nearest idle GPUs, one more pipeline stage (bitwise) or replica (relaxed) per GPU, uniform
// layers.
#include <algorithm>
#include <set>

#include "planner/core/growth.hpp"
#include "planner/core/pipeline_time.hpp"
#include "planner/core/scheduler.hpp"
#include "planner/core/shapes.hpp"
#include "planner/core/waiting.hpp"

namespace espalier {
namespace {

bool may_grow(const ElasticJob& job, const PlanningInput& input, const SchedulerOptions& options) {
  if (job.phase != JobPhase::running || job.held || !job.plan || job.model.layers <= 0 || job.step_seconds <= 0)
    return false;
  const auto last = input.last_change.find(job.id);
  return last == input.last_change.end() || input.now - last->second >= options.cooldown_seconds;
}

// Extensions of which `plan` uses no GPU go as well: holding them would help nobody. Returns how many GPUs that frees.
int add_unused(const ElasticJob& job, const Plan& plan, std::vector<JobId>& leaving) {
  const auto ranks = plan.ranks();
  int freed = 0;
  for (const Holding& h : job.extensions) {
    const bool used = std::any_of(h.gpus.begin(), h.gpus.end(), [&](int index) {
      return std::find(ranks.begin(), ranks.end(), GpuId{h.node, index}) != ranks.end();
    });
    if (used || std::find(leaving.begin(), leaving.end(), h.job) != leaving.end()) continue;
    leaving.push_back(h.job);
    freed += static_cast<int>(h.gpus.size());
  }
  std::sort(leaving.begin(), leaving.end());
  return freed;
}

class Nearest final : public Scheduler {
 public:
  explicit Nearest(const SchedulerOptions& options) : options_(options) {}
  std::string name() const override { return "nearest"; }

  std::vector<Decision> decide(const PlanningInput& input) override {
    WaitingPlan served = serve_waiting(input, options_);
    auto decisions = shrinks(input, served);
    grow_best_first(input, served, decisions);
    std::sort(decisions.begin(), decisions.end(), [](const Decision& a, const Decision& b) { return a.job < b.job; });
    return decisions;
  }

 private:
  Decision decision(const PlanningInput& input, const ElasticJob& job, DecisionKind kind) const {
    Decision d;
    d.time = input.now;
    d.trigger = input.trigger;
    d.kind = kind;
    d.job = job.id;
    return d;
  }

  std::vector<Decision> shrinks(const PlanningInput& input, const WaitingPlan& served) const {
    std::vector<Decision> result;
    for (const ElasticJob& job : input.jobs) {
      const auto found = served.reclaims.find(job.id);
      if (found == served.reclaims.end()) continue;
      auto leaving = found->second.extensions;
      auto kept = gpus_of(job.anchor);
      int given = 0;
      for (const Holding& h : job.extensions) {
        if (std::binary_search(leaving.begin(), leaving.end(), h.job)) given += static_cast<int>(h.gpus.size());
        else
          for (const int index : h.gpus) kept.push_back({h.node, index});
      }
      auto plan = plan_on_subset(job, kept);
      if (!plan) continue;
      given += add_unused(job, *plan, leaving);
      Decision d = decision(input, job, DecisionKind::shrink);
      d.release = leaving;
      d.predicted_step_seconds = predict_step_seconds(job.step_seconds, *job.plan, *plan);
      d.candidates.push_back({*plan, d.predicted_step_seconds, 0, {}});
      d.plan = std::move(*plan);
      d.reason = "job " + std::to_string(found->second.waiting.front()) +
                 (found->second.waiting.size() > 1 ? " and others wait" : " waits") +
                 " for GPUs that extensions hold: give back " + std::to_string(given) + " GPUs, run on " +
                 std::to_string(d.plan.gpu_count());
      result.push_back(std::move(d));
    }
    return result;
  }

  // Rounds: the job with the highest marginal benefit takes its GPUs, the others look again at what is left.
  void grow_best_first(const PlanningInput& input, WaitingPlan& served, std::vector<Decision>& decisions) const {
    std::set<JobId> settled;
    for (const Decision& d : decisions) settled.insert(d.job);
    for (;;) {
      const ElasticJob* winner = nullptr;
      Growth winning;
      for (const ElasticJob& job : input.jobs) {
        if (settled.contains(job.id) || !may_grow(job, input, options_)) continue;
        Growth growth = explore_growth(job, input.cluster, served.supplies);
        if (!growth.worth_it()) {
          settled.insert(job.id);  // less supply later will not help it
          continue;
        }
        const double benefit = growth.chosen().benefit;
        if (!winner || benefit > winning.chosen().benefit ||
            (benefit == winning.chosen().benefit && job.id < winner->id)) {
          winner = &job;
          winning = std::move(growth);
        }
      }
      if (!winner) return;
      settled.insert(winner->id);
      decisions.push_back(grow(input, *winner, std::move(winning), served.supplies));
    }
  }

  Decision grow(const PlanningInput& input, const ElasticJob& job, Growth growth, std::vector<Supply>& supplies) const {
    const Candidate& chosen = growth.chosen();
    Decision d = decision(input, job, DecisionKind::grow);
    d.plan = chosen.plan;
    d.predicted_step_seconds = chosen.predicted_step_seconds;
    int extra = 0;
    for (const Taken& taken : growth.prefixes[growth.best]) {
      const int count = static_cast<int>(taken.gpus.size());
      extra += count;
      for (Supply& supply : supplies) {
        if (supply.node->name != taken.node) continue;
        const ExtensionRequest request = request_for(supply, count);
        supply.gpus.erase(supply.gpus.begin(), supply.gpus.begin() + count);
        supply.free_cpus -= request.cpus;
        supply.free_memory_mb -= request.memory_mb;
        d.acquire.push_back(request);
      }
    }
    d.reason = std::to_string(extra) + " idle GPUs on " + std::to_string(d.acquire.size()) + " node(s): from " +
               seconds_text(job.step_seconds) + " to a predicted " + seconds_text(d.predicted_step_seconds) +
               " per step";
    d.candidates = explained_candidates(std::move(growth), job);
    return d;
  }

  SchedulerOptions options_;
};

}  // namespace

std::unique_ptr<Scheduler> make_nearest_scheduler(const SchedulerOptions& options) {
  return std::make_unique<Nearest>(options);
}

}  // namespace espalier
