#include "planner/core/schedule/arena/arena.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "planner/core/schedule/acquire.hpp"
#include "planner/core/schedule/arena/arena_growth.hpp"
#include "planner/core/schedule/arena/arena_members.hpp"
#include "planner/core/schedule/arena/scaling_step.hpp"
#include "planner/core/schedule/better_place.hpp"
#include "planner/core/schedule/idle_gpus.hpp"
#include "planner/core/schedule/payoff.hpp"
#include "planner/core/schedule/shrinking.hpp"
#include "planner/core/waiting.hpp"

namespace espalier {
namespace {

constexpr int kMostLooks = 64;  // steps in one decision for which a place and a plan are looked for: bounds its latency

// Movable jobs whose other types are looked at in one decision, for the same reason.
constexpr std::size_t kMostSwitching = 8;

// The job's extensions, the newest first.
std::vector<const Holding*> newest_first(const ElasticJob& job) {
  std::vector<const Holding*> extensions;
  for (const Holding& held : job.extensions) extensions.push_back(&held);
  std::sort(extensions.begin(), extensions.end(),
            [](const Holding* a, const Holding* b) { return std::tie(b->job, b->node) < std::tie(a->job, a->node); });
  return extensions;
}

class Arena final : public Scheduler {
 public:
  Arena(const SchedulerOptions& options, const ArenaPolicyOptions& arena)
      : options_(options), arena_(arena), jobs_(options_) {}
  std::string name() const override { return "arena"; }
  const std::vector<Weighed>& weighed() const override { return weighed_; }

  std::vector<Decision> decide(const PlanningInput& input) override {
    weighed_.clear();
    members_ = jobs_.enter(input, weighed_);
    const bool someone_waits = !input.cluster.waiting.empty();
    const WaitingPlan served = serve_waiting(input, options_, someone_waits ? worth(input) : std::map<JobId, double>{});
    std::vector<Decision> decisions = shrinks(input, served);
    give_strangers_back(input, decisions);
    for (ArenaMember& one : members_)
      if (std::any_of(decisions.begin(), decisions.end(), [&](const Decision& d) { return d.job == one.job().id; }))
        one.scales = false, one.why_not.clear();
    scale(input, served, decisions);
    for (const ArenaMember& one : members_)
      if (!one.why_not.empty()) weighed_.push_back({one.job().id, 0, 0, 0, one.why_not, std::nullopt});
    const auto by_job = [](const auto& a, const auto& b) { return a.job < b.job; };
    std::sort(decisions.begin(), decisions.end(), by_job);
    std::sort(weighed_.begin(), weighed_.end(), by_job);
    members_.clear();
    return decisions;
  }

 private:
  // ---- waiting jobs (lEvent)
  // By extension: what the cluster loses per GPU where the job goes down, from the newest extension on, to the next
  // count of the buddy rule.
  std::map<JobId, double> worth(const PlanningInput& input) {
    std::map<JobId, double> worth;
    for (ArenaMember& one : members_) {
      if (one.pool < 0 || one.job().step_seconds <= 0) continue;
      int left = one.held;
      for (const Holding* const held : newest_first(one.job())) {
        const int before = left == one.held ? left : buddy_count(left, one.basic);
        left = std::max(one.basic, left - static_cast<int>(held->gpus.size()));
        const double loss = jobs_.throughput(one, input, one.pool, before) -
                            jobs_.throughput(one, input, one.pool, buddy_count(left, one.basic));
        worth[held->job] = std::max(0.0, loss) * one.weight / static_cast<double>(held->gpus.size());
      }
    }
    return worth;
  }

  // A job that gives GPUs back goes down to a count of the buddy rule.
  static void go_to_buddies(const ArenaMember& one, std::vector<JobId>& leaving) {
    int left = one.held - gpus_in(one.job(), leaving);
    const int target = buddy_count(left, one.basic);
    for (const Holding* const held : newest_first(one.job())) {
      const bool leaves = std::binary_search(leaving.begin(), leaving.end(), held->job);
      const int gpus = static_cast<int>(held->gpus.size());
      if (leaves || left - gpus < target) continue;
      leaving.insert(std::upper_bound(leaving.begin(), leaving.end(), held->job), held->job);
      left -= gpus;
    }
  }

  std::vector<Decision> shrinks(const PlanningInput& input, const WaitingPlan& served) {
    std::vector<Decision> decisions;
    for (ArenaMember& one : members_) {
      const auto found = served.reclaims.find(one.job().id);
      if (found == served.reclaims.end()) continue;
      auto leaving = found->second.extensions;
      go_to_buddies(one, leaving);
      if (auto d = give_back(input, one, std::move(leaving), describe(found->second)))
        decisions.push_back(*std::move(d));
    }
    return decisions;
  }

  std::optional<Decision> give_back(const PlanningInput& input, ArenaMember& one, std::vector<JobId> leaving,
                                    const std::string& why) const {
    auto d = Shrinking(options_, input, *jobs_.site()).shrink(one.player, std::move(leaving));
    if (d)
      d->reason = why + ": give back " + std::to_string(gpus_in(one.job(), d->release)) + " GPUs, run on " +
                  std::to_string(d->plan.gpu_count());
    return d;
  }

  // A base that has moved leaves extensions of its former type behind; another policy may have given others.
  void give_strangers_back(const PlanningInput& input, std::vector<Decision>& decisions) {
    for (ArenaMember& one : members_) {
      if (!one.scales ||
          std::any_of(decisions.begin(), decisions.end(), [&](const Decision& d) { return d.job == one.job().id; }))
        continue;
      const int type = jobs_.pools()[static_cast<std::size_t>(one.pool)].type;
      std::vector<JobId> leaving;
      for (const Holding& held : one.job().extensions) {
        const int node = jobs_.site()->topology.find(held.node);
        if (node < 0 || held.gpus.empty()) continue;
        const auto& types = jobs_.site()->topology.gpu_types(node);
        if (std::any_of(held.gpus.begin(), held.gpus.end(), [&](int gpu) {
              return static_cast<std::size_t>(gpu) >= types.size() || types[static_cast<std::size_t>(gpu)] != type;
            }))
          leaving.push_back(held.job);
      }
      if (leaving.empty()) continue;
      std::sort(leaving.begin(), leaving.end());
      one.scales = false;
      one.why_not = "it has extensions of another type than its own GPUs, and no plan without them";
      if (auto d = give_back(input, one, std::move(leaving), "it keeps to GPUs of one type"))
        decisions.push_back(*std::move(d));
    }
  }

  // ---- scaling up (InFlightHandler)
  struct Scaling {
    std::vector<ScalingJob> jobs;  // by member
    std::vector<int> free;         // by pool
    std::map<std::size_t, Decision> grown;
    std::optional<Decision> move;
    std::set<std::tuple<std::size_t, int, int>> refused;  // by member, pool and GPUs
  };

  // The members that may switch types in this decision: those that have waited longest for it.
  std::set<std::size_t> switching(const PlanningInput& input) {
    std::erase_if(switched_, [&](const auto& entry) {
      return std::none_of(members_.begin(), members_.end(),
                          [&](const ArenaMember& one) { return one.job().id == entry.first; });
    });
    std::vector<std::tuple<double, JobId, std::size_t>> order;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const ArenaMember& one = members_[m];
      if (!one.scales || one.movable == nullptr || arena_.migrate_gain < 1) continue;
      const auto before = switched_.find(one.job().id);
      order.emplace_back(before == switched_.end() ? -1 : before->second, one.job().id, m);
    }
    std::sort(order.begin(), order.end());
    if (order.size() > kMostSwitching) order.resize(kMostSwitching);
    std::set<std::size_t> chosen;
    for (const auto& [time, job, member] : order) {
      switched_[job] = input.now;
      chosen.insert(member);
    }
    return chosen;
  }

  Scaling start(const PlanningInput& input, const std::vector<Supply>& supplies) {
    Scaling scaling;
    const auto may_switch = switching(input);
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const ArenaMember& one = members_[m];
      scaling.jobs.push_back(
          {[this, &one, &input](int pool, int gpus) { return jobs_.throughput(one, input, pool, gpus); },
           one.scales ? one.pool : -1, one.held, one.most, one.weight, true, may_switch.contains(m)});
    }
    scaling.free.assign(jobs_.pools().size(), 0);
    const ElasticJob nobody;
    for (const NodeGpus& node : IdleGpus(supplies, *jobs_.site(), {}).for_job(nobody, {}))
      for (const std::int16_t gpu : node.gpus)
        for (std::size_t p = 0; p < scaling.free.size(); ++p)
          if (jobs_.pools()[p].type == jobs_.site()->topology.gpu_types(node.node)[static_cast<std::size_t>(gpu)])
            ++scaling.free[p];
    return scaling;
  }

  // Before a place is looked for.
  bool cannot_be(const PlanningInput& input, const Scaling& scaling, const ScalingStep& step) {
    ArenaMember& one = members_[step.job];
    if (scaling.refused.contains({step.job, step.pool, step.gpus})) return true;
    if (step.pool != one.pool) {
      const auto& type = jobs_.site()->hardware.types[static_cast<std::size_t>(pool_type(step.pool))];
      return scaling.move || !one.movable->reach.has_type(type.name);
    }
    const double now = jobs_.throughput(one, input, one.pool, one.held);
    const double next = jobs_.throughput(one, input, step.pool, step.gpus);
    if (Payoff(options_, input).worth_its_pause(one.player, 1 / now, 1 / next, step.gpus - one.held)) return false;
    one.why_not = "to " + std::to_string(step.gpus) + " GPUs: the change would not win what it costs";
    return true;
  }
  int pool_type(int pool) const { return jobs_.pools()[static_cast<std::size_t>(pool)].type; }

  void scale(const PlanningInput& input, const WaitingPlan& served, std::vector<Decision>& decisions) {
    Scaling scaling = start(input, served.supplies);
    for (ArenaMember& one : members_)
      if (one.scales) one.why_not = none_better(one, scaling);
    const auto refused = [&](const ScalingStep& step) { return cannot_be(input, scaling, step); };
    for (int steps = 0, looks = 0; steps < arena_.search_depth && looks < kMostLooks; ++looks) {
      const auto step = best_step(scaling.jobs, scaling.free, refused);
      if (!step) break;
      const bool done = step->pool != members_[step->job].pool ? move(input, scaling, *step)
                                                               : grow(input, served.supplies, scaling, *step);
      if (done) ++steps;
      else scaling.refused.insert({step->job, step->pool, step->gpus});
    }
    for (auto& [member, decision] : scaling.grown) {
      members_[member].why_not.clear();
      decisions.push_back(std::move(decision));
    }
    if (scaling.move) decisions.push_back(*std::move(scaling.move));
  }

  std::string none_better(const ArenaMember& one, const Scaling& scaling) const {
    if (doubled(one.held) > one.most) return "it has the most GPUs that it may have as a power of two";
    if (scaling.free[static_cast<std::size_t>(one.pool)] < doubled(one.held) - one.held)
      return "there are too few idle GPUs of its type to double it";
    return "no more GPUs of its type would make it faster";
  }

  bool grow(const PlanningInput& input, std::vector<Supply> supplies, Scaling& scaling, const ScalingStep& step) {
    for (const auto& [member, decision] : scaling.grown) {
      std::vector<ExtensionRequest> others;
      if (member != step.job) acquire_for(members_[member].job(), decision.plan, supplies, others);
    }
    if (scaling.move) leave(supplies, *scaling.move);
    ArenaMember& one = members_[step.job];
    std::string why;
    auto decision = ArenaGrowth(options_, input, *jobs_.site(), jobs_.pools()).to(one, step.gpus, supplies, why);
    if (!decision) {
      one.why_not = why;
      return false;
    }
    ScalingJob& job = scaling.jobs[step.job];
    scaling.free[static_cast<std::size_t>(step.pool)] -= step.gpus - job.gpus;
    job.gpus = step.gpus;
    job.switches = false;
    scaling.grown[step.job] = *std::move(decision);
    return true;
  }

  // The idle GPUs on which a base will be are no supply.
  static void leave(std::vector<Supply>& supplies, const Decision& move) {
    for (const ExtensionRequest& part : move.acquire)
      for (Supply& supply : supplies)
        if (supply.node->name == part.node)
          supply.gpus.resize(supply.gpus.size() - std::min(supply.gpus.size(), static_cast<std::size_t>(part.gpus)));
  }

  bool move(const PlanningInput& input, Scaling& scaling, const ScalingStep& step) {
    ArenaMember& one = members_[step.job];
    std::vector<Decision> decided;
    for (const auto& [member, decision] : scaling.grown) decided.push_back(decision);
    const std::string& type = jobs_.site()->hardware.types[static_cast<std::size_t>(pool_type(step.pool))].name;
    const auto place = place_on_type(input, options_, arena_.migrate_gain, *one.movable, type, decided);
    if (!place) return false;
    scaling.move = decision_of(*place, input, one.job());
    one.why_not.clear();
    scaling.free[static_cast<std::size_t>(step.pool)] -= step.gpus;
    scaling.jobs[step.job].pool = -1;
    return true;
  }

  const SchedulerOptions options_;
  const ArenaPolicyOptions arena_;
  ArenaMembers jobs_;
  std::vector<ArenaMember> members_;  // of one call
  std::map<JobId, double> switched_;  // PlanningInput::now of the last look at other types
  std::vector<Weighed> weighed_;
};

}  // namespace

std::unique_ptr<Scheduler> make_arena_scheduler(const SchedulerOptions& options, const ArenaPolicyOptions& arena) {
  return std::make_unique<Arena>(options, arena);
}

}  // namespace espalier
