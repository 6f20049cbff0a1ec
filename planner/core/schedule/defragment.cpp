#include "planner/core/schedule/defragment.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

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
};

int gpus_of(const std::vector<Holding>& holdings) {
  int sum = 0;
  for (const Holding& held : holdings) sum += static_cast<int>(held.gpus.size());
  return sum;
}

bool may_run_on(const std::vector<std::string>& types, const std::string& type) {
  return types.empty() || std::find(types.begin(), types.end(), type) != types.end();
}

class Search {
 public:
  Search(const PlanningInput& input, const SchedulerOptions& options, const WaitingPlan& served)
      : input_(input), options_(options) {
    for (std::size_t i = 0; i < served.supplies.size(); ++i) {
      const Supply& supply = served.supplies[i];
      grounds_[supply.node->name] = {supply.node, static_cast<int>(supply.gpus.size()), served.room[i]};
    }
  }

  // The cheapest move that gives `waiting` the one node that it lacks.
  std::optional<Relief> relief(const Unserved& waiting, const std::vector<MovableJob>& movable) const {
    std::set<std::string> needed;  // nodes that the job will use
    for (const auto& [name, ground] : grounds_)
      if (allowed(waiting.job, *ground.node) && ground.room >= waiting.each) needed.insert(name);
    if (waiting.nodes - static_cast<int>(needed.size()) != 1) return std::nullopt;
    std::vector<Candidate> candidates;
    for (const MovableJob& one : movable) {
      const auto job = std::lower_bound(input_.jobs.begin(), input_.jobs.end(), one.id,
                                        [](const ElasticJob& a, JobId id) { return a.id < id; });
      if (job == input_.jobs.end() || job->id != one.id || job->phase != JobPhase::running || !job->plan ||
          base_of(*job) == 0)
        continue;
      for (const Holding& part : job->anchor)
        if (const auto ground = grounds_.find(part.node);
            ground != grounds_.end() && makes_room(waiting, ground->second, part))
          candidates.push_back({cost_of(*job), &*job, &one.types, &part.node});
    }
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return std::tie(a.cost, a.job->id, *a.node) < std::tie(b.cost, b.job->id, *b.node);
    });
    if (candidates.size() > kMostTried) candidates.resize(kMostTried);
    std::optional<Relief> best;
    for (const Candidate& one : candidates) {
      if (best && one.cost > best->cost_gpu_seconds) break;
      auto found = move_away(*one.job, *one.types, *one.node, needed, waiting.each);
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
    const std::vector<std::string>* types = nullptr;
    const std::string* node = nullptr;  // which a part of the base would leave
  };

  double cost_of(const ElasticJob& job) const {
    const auto pause = input_.redeploy_seconds.find(job.id);
    return job.plan->gpu_count() * (pause != input_.redeploy_seconds.end() ? pause->second : options_.redeploy_seconds);
  }

  static bool makes_room(const Unserved& waiting, const Ground& ground, const Holding& part) {
    return allowed(waiting.job, *ground.node) && ground.room < waiting.each &&
           ground.room + static_cast<int>(part.gpus.size()) >= waiting.each;
  }

  // Of the nodes that the waiting job needs, `each_needed` GPUs each are left to it.
  std::optional<Relief> move_away(const ElasticJob& job, const std::vector<std::string>& types, const std::string& from,
                                  const std::set<std::string>& needed, int each_needed) const {
    const std::string& type = grounds_.at(from).node->gpu_type;
    std::vector<Ground> open;
    for (const auto& [name, ground] : grounds_) {
      if (name == from || ground.node->gpu_type != type || !may_run_on(types, type)) continue;
      open.push_back(ground);
      if (needed.contains(name)) open.back().room -= each_needed;
    }
    const int gpus = gpus_of(job.anchor);
    for (int parts = 1; parts <= static_cast<int>(job.anchor.size()); ++parts) {
      if (gpus % parts != 0) continue;
      const int each = gpus / parts;
      std::vector<const Ground*> fit;
      for (const Ground& ground : open)
        if (ground.room >= each) fit.push_back(&ground);
      if (static_cast<int>(fit.size()) < parts) continue;
      // Few extensions go, and large holes stay whole.
      std::sort(fit.begin(), fit.end(), [&](const Ground* a, const Ground* b) {
        return std::tuple(std::max(0, each - a->idle), a->room, std::cref(a->node->name).get()) <
               std::tuple(std::max(0, each - b->idle), b->room, std::cref(b->node->name).get());
      });
      Relief relief;
      relief.job = job.id;
      relief.node = from;
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
  std::map<std::string, Ground> grounds_;
};

}  // namespace

std::optional<Relief> find_relief(const PlanningInput& input, const SchedulerOptions& options,
                                  const std::vector<MovableJob>& movable) {
  if (movable.empty() || input.cluster.waiting.empty()) return std::nullopt;
  const WaitingPlan served = serve_waiting(input, options);
  const Search search(input, options, served);
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
