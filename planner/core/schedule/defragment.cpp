#include "planner/core/schedule/defragment.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "planner/core/schedule/gpu_type.hpp"
#include "planner/core/schedule/move.hpp"
#include "planner/core/waiting.hpp"

namespace espalier {
namespace {

constexpr std::size_t kMostLooks = 8;   // waiting jobs in one decision, which bounds its latency
constexpr std::size_t kMostTried = 64;  // bases for one waiting job, the cheapest ones, for the same reason
// A job that Slurm expects to start within this time, and the time that a generation takes to start, needs no move.
constexpr double kSoon = 60;

struct Ground {
  const NodeView* node = nullptr;
  int idle = 0, room = 0;
  // Of the waiting job that is looked at:
  bool allowed = false;
  int spare = 0;  // room that it does not need
};

int gpus_of(const std::vector<Holding>& holdings) {
  int sum = 0;
  for (const Holding& held : holdings) sum += static_cast<int>(held.gpus.size());
  return sum;
}

class Search {
 public:
  Search(const PlanningInput& input, const SchedulerOptions& options, const WaitingPlan& served)
      : input_(input), options_(options) {
    grounds_.reserve(served.supplies.size());
    for (std::size_t i = 0; i < served.supplies.size(); ++i) {
      const Supply& supply = served.supplies[i];
      grounds_.push_back({supply.node, static_cast<int>(supply.gpus.size()), served.room[i], false, 0});
    }
    std::sort(grounds_.begin(), grounds_.end(),
              [](const Ground& a, const Ground& b) { return a.node->name < b.node->name; });
  }

  // The cheapest move that gives `waiting` the one node that it lacks.
  std::optional<Relief> relief(const Unserved& waiting, const std::vector<MovableJob>& movable) {
    if (waiting.nodes - leave_to(waiting) != 1) return std::nullopt;
    std::vector<Candidate> candidates;
    for (const MovableJob& one : movable) {
      const auto job = std::lower_bound(input_.jobs.begin(), input_.jobs.end(), one.id,
                                        [](const ElasticJob& a, JobId id) { return a.id < id; });
      if (job == input_.jobs.end() || job->id != one.id || job->phase != JobPhase::running || !job->plan ||
          base_of(*job) == 0)
        continue;
      for (const Holding& part : job->anchor)
        if (const Ground* ground = ground_of(part.node); ground != nullptr && makes_room(waiting, *ground, part))
          candidates.push_back({cost_of(*job), &*job, &one.reach, ground});
    }
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return std::tie(a.cost, a.job->id, a.ground->node->name) < std::tie(b.cost, b.job->id, b.ground->node->name);
    });
    if (candidates.size() > kMostTried) candidates.resize(kMostTried);
    std::optional<Relief> best;
    for (const Candidate& one : candidates) {
      if (best && one.cost > best->cost_gpu_seconds) break;
      auto found = move_away(*one.job, *one.reach, *one.ground);
      if (!found || (best && best->held <= found->held)) continue;
      found->waiting = waiting.job.id;
      found->cost_gpu_seconds = one.cost;
      best = std::move(found);
    }
    return best;
  }

 private:
  struct Candidate {
    double cost = 0;
    const ElasticJob* job = nullptr;
    const Reach* reach = nullptr;
    const Ground* ground = nullptr;  // which a part of the base would leave
  };

  double cost_of(const ElasticJob& job) const {
    const auto pause = input_.redeploy_seconds.find(job.id);
    return job.plan->gpu_count() * (pause != input_.redeploy_seconds.end() ? pause->second : options_.redeploy_seconds);
  }

  // Marks what the waiting job may use and will need. The number of nodes that have room for it.
  int leave_to(const Unserved& waiting) {
    const auto& only = waiting.job.only_nodes;
    auto next = only.begin();  // both are sorted by name
    int nodes = 0;
    for (Ground& ground : grounds_) {
      while (next != only.end() && *next < ground.node->name) ++next;
      ground.allowed = (only.empty() || (next != only.end() && *next == ground.node->name)) &&
                       !(waiting.job.whole_nodes && ground.node->cpu_jobs);  // it cannot become empty
      const bool needed = ground.allowed && ground.room >= waiting.each;
      ground.spare = ground.room - (needed ? waiting.each : 0);
      nodes += needed;
    }
    return nodes;
  }

  const Ground* ground_of(const std::string& node) const {
    const auto at =
        std::lower_bound(grounds_.begin(), grounds_.end(), node,
                         [](const Ground& ground, const std::string& name) { return ground.node->name < name; });
    return at != grounds_.end() && at->node->name == node ? &*at : nullptr;
  }

  static bool makes_room(const Unserved& waiting, const Ground& ground, const Holding& part) {
    return ground.allowed && ground.room < waiting.each &&
           ground.room + static_cast<int>(part.gpus.size()) >= waiting.each;
  }

  // Types of GPU for the second base, the present one first.
  std::vector<std::string> types_for(const ElasticJob& job, const std::string& present) const {
    std::vector<std::string> types{present};
    if (!options_.arena || options_.arena->migrate_gain < 1 || keeps_gpu_type(job)) return types;
    std::set<std::string> others;
    for (const Ground& ground : grounds_) others.insert(ground.node->gpu_type);
    others.erase(present);
    types.insert(types.end(), others.begin(), others.end());
    return types;
  }

  std::optional<Relief> move_away(const ElasticJob& job, const Reach& reach, const Ground& from) const {
    for (const std::string& type : types_for(job, from.node->gpu_type))
      if (auto found = move_to_type(job, reach, from, type)) return found;
    return std::nullopt;
  }

  std::optional<Relief> move_to_type(const ElasticJob& job, const Reach& reach, const Ground& from,
                                     const std::string& type) const {
    const int gpus = gpus_of(job.anchor);
    for (int parts = 1; parts <= static_cast<int>(job.anchor.size()); ++parts) {
      if (gpus % parts != 0) continue;
      const int each = gpus / parts;
      std::vector<const Ground*> fit;
      for (const Ground& ground : grounds_)
        if (ground.spare >= each && &ground != &from && ground.node->gpu_type == type && reach.has(*ground.node))
          fit.push_back(&ground);
      if (static_cast<int>(fit.size()) < parts) continue;
      // Few extensions go, and large holes stay whole; then by name, as grounds_ are.
      std::partial_sort(fit.begin(), fit.begin() + parts, fit.end(), [&](const Ground* a, const Ground* b) {
        return std::tuple(std::max(0, each - a->idle), a->spare, a) <
               std::tuple(std::max(0, each - b->idle), b->spare, b);
      });
      Relief relief;
      relief.job = job.id;
      relief.node = from.node->name;
      for (int i = 0; i < parts; ++i) {
        const Ground& ground = *fit[static_cast<std::size_t>(i)];
        relief.base.push_back({.node = ground.node->name, .gpus = each});
        relief.held += std::max(0, each - ground.idle);
      }
      std::sort(relief.base.begin(), relief.base.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
      return relief;
    }
    return std::nullopt;
  }

  const PlanningInput& input_;
  const SchedulerOptions& options_;
  std::vector<Ground> grounds_;  // by name
};

}  // namespace

std::optional<Relief> find_relief(const PlanningInput& input, const SchedulerOptions& options,
                                  const std::vector<MovableJob>& movable) {
  if (movable.empty() || input.cluster.waiting.empty()) return std::nullopt;
  const WaitingPlan served = serve_waiting(input, options);
  Search search(input, options, served);
  std::size_t looks = 0;
  for (const Unserved& waiting : served.unserved) {
    if (++looks > kMostLooks) break;
    const auto found = search.relief(waiting, movable);
    if (!found) continue;
    if (const auto& start = waiting.job.expected_start) {
      const double sooner = *start - input.now;
      if (sooner < options.start_seconds + kSoon || sooner * waiting.job.gpus < found->cost_gpu_seconds) continue;
    }
    return found;
  }
  return std::nullopt;
}

}  // namespace espalier
