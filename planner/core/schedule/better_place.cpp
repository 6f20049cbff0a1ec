#include "planner/core/schedule/better_place.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <set>
#include <tuple>

#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/core/model/assumed_range.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/schedule/gpu_type.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/job_site.hpp"
#include "planner/core/schedule/move.hpp"
#include "planner/core/schedule/neutral_site.hpp"
#include "planner/core/schedule/player.hpp"

namespace espalier {
namespace {

constexpr std::size_t kMostLooks = 8;  // jobs in one decision, which bounds its latency
constexpr double kBothHeld = 60;       // seconds after a start for which both bases are held at most (launcher/base)
// Owns GPUs that a decision takes. Slurm gives no job this number.
constexpr JobId kTaken = std::numeric_limits<JobId>::max();

// Idle GPUs by type, on nodes to which a base may move.
std::map<std::string, int> idle_by_type(const ClusterView& cluster) {
  std::map<std::string, int> idle;
  for (const NodeView& node : cluster.nodes)
    if (node.usable && node.unhealthy.empty()) idle[node.gpu_type] += node.idle_gpus();
  return idle;
}

int gpus_of(const ElasticJob& job) {
  std::size_t sum = 0;
  for (const Holding& held : job.anchor) sum += held.gpus.size();
  return static_cast<int>(sum);
}

class Look {
 public:
  Look(const PlanningInput& input, const SchedulerOptions& options, double least_gain, ClusterView cluster)
      : input_(input),
        options_(options),
        least_gain_(std::max(least_gain, options.least_gain)),
        cluster_(std::move(cluster)),
        idle_(idle_by_type(cluster_)),
        known_{input.site ? *input.site : *neutral_site(input.cluster), std::nullopt},
        roomy_(known_.site.hardware) {
    for (GpuType& type : roomy_.types) type.memory_bytes = 1e30;
  }

  // The types to which the base may move, without looking at nodes.
  std::vector<std::string> types_for(const ElasticJob& job, const MovableJob& movable) const {
    std::vector<std::string> types;
    const std::string present = gpu_type_of(job, cluster_);
    for (const auto& [type, gpus] : idle_) {
      const bool allowed = movable.reach.has_type(type);
      const bool better = type == present ? job.anchor.size() > 1 : !keeps_gpu_type(job);
      if (allowed && better && gpus >= gpus_of(job)) types.push_back(type);
    }
    return types;
  }

  bool may_move(const ElasticJob& job) const {
    if (job.phase != JobPhase::running || !job.plan || job.held || job.step_seconds <= 0 || base_of(job) == 0)
      return false;
    const auto last = input_.last_change.find(job.id);
    if (last != input_.last_change.end() && input_.now - last->second < options_.cooldown_seconds) return false;
    return left_after_move(job) > kBothHeld;
  }

  // Seconds for which the job would train in the new place.
  double left_after_move(const ElasticJob& job) const { return remaining_seconds(job) - start_seconds(job); }

  std::optional<BetterPlace> at(const ElasticJob& job, const MovableJob& movable, const std::string& type) {
    BetterPlace place;
    place.job = job.id;
    place.present_type = gpu_type_of(job, cluster_);
    place.present_nodes = static_cast<int>(job.anchor.size());
    place.type = type;
    try {
      place.base = place_for(job, {type, {}}, movable.reach, cluster_);
    } catch (const Error&) {
      return std::nullopt;  // too few GPUs with as many on each node, or a waiting job could use them
    }
    if (type == place.present_type && place.base.size() >= job.anchor.size()) return std::nullopt;
    const auto given = input_.coefficients.find(job.id);
    known_.coefficients =
        as_the_job_allows(given != input_.coefficients.end() ? given->second : assumed_for(job, known_.site), job);
    if (type != place.present_type && !computation_is_measured(place.present_type)) return std::nullopt;
    const auto plan = plan_at_rest(job, place.base, cluster_, &known_);
    if (!plan) return std::nullopt;
    const Site here = site_for(known_.site, job);
    const Site there = site_for(known_.site, job_at_rest(job, place.base, cluster_));
    const auto next = evaluate_plan(there.hardware, there.topology, *known_.coefficients, *plan);
    if (!next.feasible) return std::nullopt;
    place.next_ms = next.exact_ms;
    place.present_ms = evaluate_plan(here.hardware, here.topology, *known_.coefficients, *job.plan).exact_ms;
    const JobCoefficients worst = worst_of_assumed(*known_.coefficients);
    const auto at_worst = [&](const Site& site, const Plan& one) {
      return evaluate_plan(roomy_, site.topology, worst, one).exact_ms;
    };
    if (!pays(job, place.present_ms, place.next_ms) || !pays(job, at_worst(here, *job.plan), at_worst(there, *plan)))
      return std::nullopt;
    auto after = plan_after_move(job, place.base, cluster_, &known_);
    if (!after) return std::nullopt;
    place.plan = std::move(*after);
    // A job whose end is not known counts as if it trained for another hour.
    const double left = std::min(left_after_move(job), 3600.0);
    place.saved_gpu_seconds = gpus_of(job) * left * (1 - place.next_ms / place.present_ms);
    return place;
  }

 private:
  double start_seconds(const ElasticJob& job) const {
    const auto start = input_.start_seconds.find(job.id);
    return start != input_.start_seconds.end() ? start->second : options_.start_seconds;
  }

  // Of known_.coefficients. Where no type was measured, the range of what is assumed says nothing of their ratio.
  bool computation_is_measured(const std::string& type) const {
    const int index = known_.site.hardware.type_index(type);
    return index >= 0 && !known_.coefficients->gpu.at(static_cast<std::size_t>(index)).assumed_comp;
  }

  bool pays(const ElasticJob& job, double present_ms, double next_ms) const {
    if (!(next_ms > 0) || next_ms * least_gain_ > present_ms) return false;
    const auto pause = input_.redeploy_seconds.find(job.id);
    const double cost = start_seconds(job) + kBothHeld +
                        (pause != input_.redeploy_seconds.end() ? pause->second : options_.redeploy_seconds);
    return (present_ms / next_ms - 1) * left_after_move(job) > cost;
  }

  const PlanningInput& input_;
  const SchedulerOptions& options_;
  const double least_gain_;
  const ClusterView cluster_;
  const std::map<std::string, int> idle_;
  PlanningBasis known_;
  Hardware roomy_;  // without limits of memory: the expected coefficients decide what fits
};

const ElasticJob* job_of(const PlanningInput& input, JobId id) {
  const auto job = std::lower_bound(input.jobs.begin(), input.jobs.end(), id,
                                    [](const ElasticJob& a, JobId wanted) { return a.id < wanted; });
  return job != input.jobs.end() && job->id == id ? &*job : nullptr;
}

struct Mover {
  double looked = 0;  // when it was looked at last; below 0: never
  double left = 0;    // seconds
  const ElasticJob* job = nullptr;
  const MovableJob* movable = nullptr;
};

}  // namespace

std::string describe(const BetterPlace& place) {
  std::vector<std::string> nodes;
  for (const ExtensionRequest& request : place.base) nodes.push_back(request.node);
  char factor[32];
  std::snprintf(factor, sizeof factor, "%.2f", place.present_ms / place.next_ms);
  const std::string where = place.type + " GPUs on " + fold_hosts(nodes) + " train it " + factor + " times as fast as ";
  if (place.type != place.present_type) return where + "its " + place.present_type;
  return where + "those on " + std::to_string(place.present_nodes) + " nodes";
}

Decision decision_of(const BetterPlace& place, const PlanningInput& input, const ElasticJob& job) {
  Decision decision = decision_for(input, job, DecisionKind::migrate);
  decision.acquire = place.base;
  decision.plan = place.plan;
  decision.reason = describe(place);
  decision.predicted_step_seconds = job.step_seconds * place.next_ms / place.present_ms;
  return decision;
}

ClusterView without_taken(ClusterView cluster, const std::vector<Decision>& decided) {
  for (const Decision& decision : decided)
    for (const ExtensionRequest& request : decision.acquire) {
      NodeView* const node = cluster.find(request.node);
      if (node == nullptr) continue;
      int taken = 0;
      for (JobId& owner : node->gpu_owner)
        if (owner == 0 && taken < request.gpus) {
          owner = kTaken;
          ++taken;
        }
    }
  return cluster;
}

std::optional<BetterPlace> place_on_type(const PlanningInput& input, const SchedulerOptions& options, double least_gain,
                                         const MovableJob& movable, const std::string& type,
                                         const std::vector<Decision>& decided) {
  const ElasticJob* const job = job_of(input, movable.id);
  Look look(input, options, least_gain, without_taken(input.cluster, decided));
  if (job == nullptr || !look.may_move(*job)) return std::nullopt;
  const auto types = look.types_for(*job, movable);
  return std::find(types.begin(), types.end(), type) != types.end() ? look.at(*job, movable, type) : std::nullopt;
}

std::vector<MovableJob> within_their_types(std::vector<MovableJob> movable, const PlanningInput& input) {
  for (MovableJob& one : movable)
    if (const ElasticJob* const job = job_of(input, one.id)) one.reach.types = {gpu_type_of(*job, input.cluster)};
  return movable;
}

std::optional<BetterPlace> BetterPlaces::find_place(const PlanningInput& input, const SchedulerOptions& options,
                                                    double least_gain, const std::vector<MovableJob>& movable,
                                                    const std::vector<Decision>& decided) {
  std::erase_if(looked_, [&](const auto& entry) {
    return !std::binary_search(movable.begin(), movable.end(), MovableJob{entry.first, {}},
                               [](const MovableJob& a, const MovableJob& b) { return a.id < b.id; });
  });
  if (movable.empty()) return std::nullopt;
  std::set<JobId> busy;
  for (const Decision& decision : decided) busy.insert(decision.job);
  Look look(input, options, least_gain, without_taken(input.cluster, decided));
  std::vector<Mover> candidates;
  for (const MovableJob& one : movable) {
    const ElasticJob* const job = job_of(input, one.id);
    if (job == nullptr || busy.contains(one.id) || !look.may_move(*job) || look.types_for(*job, one).empty()) continue;
    const auto looked = looked_.find(one.id);
    candidates.push_back({looked == looked_.end() ? -1 : looked->second, look.left_after_move(*job), job, &one});
  }
  std::sort(candidates.begin(), candidates.end(), [](const Mover& a, const Mover& b) {
    return std::tuple(a.looked, -a.left, a.job->id) < std::tuple(b.looked, -b.left, b.job->id);
  });
  if (candidates.size() > kMostLooks) candidates.resize(kMostLooks);
  std::optional<BetterPlace> best;
  for (const Mover& one : candidates) {
    looked_[one.job->id] = input.now;
    for (const std::string& type : look.types_for(*one.job, *one.movable)) {
      auto place = look.at(*one.job, *one.movable, type);
      if (place && (!best || place->saved_gpu_seconds > best->saved_gpu_seconds)) best = std::move(place);
    }
  }
  return best;
}

std::optional<Decision> BetterPlaces::find(const PlanningInput& input, const SchedulerOptions& options,
                                           double least_gain, const std::vector<MovableJob>& movable,
                                           const std::vector<Decision>& decided) {
  const auto place = find_place(input, options, least_gain, movable, decided);
  if (!place) return std::nullopt;
  const auto job =
      std::find_if(input.jobs.begin(), input.jobs.end(), [&](const ElasticJob& one) { return one.id == place->job; });
  return decision_of(*place, input, *job);
}

}  // namespace espalier
