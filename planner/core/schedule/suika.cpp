// Algorithm 2 (Suika §3.2.3). Waiting jobs are served first. Scale-outs below the threshold are
// given back. Then, in rounds, the best (job, prefix) takes its GPUs in a virtual cluster. The
// result is at most one reconfiguration per job.
#include <algorithm>
#include <set>

#include "planner/core/data_parallel.hpp"
#include "planner/core/error.hpp"
#include "planner/core/schedule/benefit.hpp"
#include "planner/core/schedule/growing.hpp"
#include "planner/core/schedule/growth_record.hpp"
#include "planner/core/schedule/idle_gpus.hpp"
#include "planner/core/schedule/intensity.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/known_jobs.hpp"
#include "planner/core/schedule/materialize.hpp"
#include "planner/core/schedule/neutral_site.hpp"
#include "planner/core/schedule/payoff.hpp"
#include "planner/core/schedule/replacing.hpp"
#include "planner/core/schedule/shrinking.hpp"
#include "planner/core/schedule/take_standing.hpp"
#include "planner/core/schedule/trades.hpp"
#include "planner/core/schedule/verdict.hpp"
#include "planner/core/schedule/virtual_job.hpp"
#include "planner/core/waiting.hpp"

namespace espalier {
namespace {

// A planner that starts on a full cluster sees hundreds of jobs at once. The remaining jobs are
// replanned at the next events.
constexpr int kReplansPerDecision = 8;

struct BeforeById {
  bool operator()(const ElasticJob& job, JobId id) const { return job.id < id; }
  bool operator()(JobId id, const ElasticJob& job) const { return id < job.id; }
};

class Suika final : public Scheduler {
 public:
  explicit Suika(const SchedulerOptions& options) : options_(options) {
    expand_ = options.as_printed ? ExpandOptions::as_printed() : ExpandOptions{};
    // The paper does not say how N_b changes. With a fixed N_b, a plan with one sample per replica
    // could not add a replica.
    expand_.keep_n_b = false;
    expand_.window = options.window;
    expand_.thinned = true;
    expand_.solver = options.solver.get();
  }
  std::string name() const override { return options_.as_printed ? "suika" : "espalier"; }
  const std::vector<Weighed>& weighed() const override { return weighed_; }

  std::vector<Decision> decide(const PlanningInput& input) override {
    site_ = input.site ? input.site : neutral_site(input.cluster);
    weighed_.clear();
    threshold_ = benefit_threshold(intensity(input), options_.lambda);
    enter(input);
    std::map<JobId, double> worth;  // marginal benefit B by extension
    const auto stacks = weigh_stacks(worth, !input.cluster.waiting.empty());
    WaitingPlan served = serve_waiting(input, options_, worth);
    forecast_idle(input, served);
    auto decisions = shrinks(input, served);
    reclaim_below_threshold(input, stacks, decisions);
    for (const Decision& d : decisions) player(d.job)->grows = false;
    rounds(input, served);
    Growing growing(options_, input, *site_, threshold_, payoff(input));
    for (Player& one : players_)
      if (one.grown)
        if (auto d = growing.growth(one, served.supplies, weighed_)) decisions.push_back(std::move(*d));
    trade(input, served, decisions);
    replan(input, growing, decisions);
    // A VirtualJob that has grown shows an imagined state. It must not be reused as the job's real
    // state.
    for (const Player& one : players_)
      if (one.grown) {
        const auto imagined = known_.find(one.job->id);
        spent_[one.job->id] = std::move(imagined->second);
        known_.erase(imagined);
      }
    if (!options_.as_printed)
      for (Decision& d : decisions) d.objective = describe(player(d.job)->standing);
    std::sort(decisions.begin(), decisions.end(), [](const Decision& a, const Decision& b) { return a.job < b.job; });
    std::sort(weighed_.begin(), weighed_.end(), [](const Weighed& a, const Weighed& b) { return a.job < b.job; });
    players_.clear();
    return decisions;
  }

 private:
  // ---- participants
  void enter(const PlanningInput& input) {
    KnownJobs kept;
    players_.clear();
    players_.reserve(input.jobs.size());
    std::vector<const ElasticJob*> running;
    for (const ElasticJob& job : input.jobs)
      if (job.phase == JobPhase::running && job.plan) running.push_back(&job);
    std::sort(running.begin(), running.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
    for (const ElasticJob* const each : running) {
      const ElasticJob& job = *each;
      auto& slot = kept[job.id];
      slot = virtual_job(job, input);
      if (!slot) {
        weighed_.push_back({job.id, 0, 0, threshold_, "its plan cannot be scored on this cluster", std::nullopt});
        continue;
      }
      Player one;
      one.job = &job;
      one.virtual_job = slot.get();
      one.first_ms = slot->present().ms;
      one.first_exact = slot->evaluator().exact_sketch(slot->present().sketch);
      one.base_exact = one.first_exact;
      one.first_size = slot->size_of(slot->held());
      one.first_gpus = slot->present().sketch.gpus();
      one.first_held = slot->held();
      one.grows = may_grow(job, input);
      players_.push_back(std::move(one));
    }
    take_standing(players_, options_, input);
    for (auto& [id, left] : known_)
      if (left) spent_[id] = std::move(left);
    known_ = std::move(kept);
    std::erase_if(spent_, [&](const auto& entry) {
      return known_.contains(entry.first) ||
             !std::binary_search(input.jobs.begin(), input.jobs.end(), entry.first, BeforeById{});
    });
  }

  // One of a job that has changed goes on with what it may of the job's earlier one.
  std::unique_ptr<VirtualJob> virtual_job(const ElasticJob& job, const PlanningInput& input) {
    auto made = kept_or_made(known_, job, input, site_, options_.data_parallel_only, books_);
    for (auto* earlier : {&known_, &spent_})
      if (const auto before = earlier->find(job.id); made && before != earlier->end() && before->second) {
        made->inherit(*before->second);
        break;
      }
    return made;
  }

  bool may_grow(const ElasticJob& job, const PlanningInput& input) const {
    // Of a model that is not known, nothing is assumed: without sizes, the synchronization of gradients would be free.
    if (data_parallel_only(job) && !input.coefficients.contains(job.id)) return false;
    return !job.held && job.model.layers > 0 && job.step_seconds > 0 && rested(job, input);
  }
  bool rested(const ElasticJob& job, const PlanningInput& input) const {
    const auto last = input.last_change.find(job.id);
    return last == input.last_change.end() || input.now - last->second >= options_.cooldown_seconds;
  }
  Player* player(JobId id) {
    for (Player& one : players_)
      if (one.job->id == id) return &one;
    return nullptr;
  }

  // ---- waiting jobs and reclaim
  using Stacks = std::map<JobId, std::vector<StackTop>>;

  // Needed when extensions may be reclaimed: for waiting jobs, or because the cluster has filled.
  Stacks weigh_stacks(std::map<JobId, double>& worth, bool someone_waits) {
    Stacks stacks;
    for (Player& one : players_) {
      if (one.job->extensions.empty()) continue;
      if (!someone_waits && !options_.reclaim) continue;
      auto& stack = stacks[one.job->id] = one.virtual_job->stack(kStackEffort);
      for (const StackTop& top : stack)
        for (const JobId extension : top.extensions)
          worth.try_emplace(extension, top.benefit * one.discount * one.turn);
    }
    return stacks;
  }

  std::vector<Decision> shrinks(const PlanningInput& input, const WaitingPlan& served) {
    std::vector<Decision> result;
    for (Player& one : players_) {
      const auto found = served.reclaims.find(one.job->id);
      if (found == served.reclaims.end()) continue;
      auto d = Shrinking(options_, input, *site_).shrink(one, found->second.extensions);
      if (!d) continue;
      d->reason = describe(found->second) + ": give back " + std::to_string(gpus_in(*one.job, d->release)) +
                  " GPUs, run on " + std::to_string(d->plan.gpu_count());
      result.push_back(std::move(*d));
    }
    return result;
  }

  void reclaim_below_threshold(const PlanningInput& input, const Stacks& stacks, std::vector<Decision>& decisions) {
    const double limit = threshold_ * (1 - options_.hysteresis);
    for (const auto& [id, stack] : stacks) {
      Player& one = *player(id);
      const bool settled =
          std::any_of(decisions.begin(), decisions.end(), [id = id](const Decision& d) { return d.job == id; });
      if (!options_.reclaim || settled || one.job->step_seconds <= 0 || !rested(*one.job, input)) continue;
      if (auto d = Shrinking(options_, input, *site_).reclaim(one, stack, limit)) decisions.push_back(std::move(*d));
    }
  }

  // Of jobs without other GPUs.
  void replan(const PlanningInput& input, Growing& growing, std::vector<Decision>& decisions) {
    std::vector<Player*> stay;
    for (Player& one : players_)
      if (one.grows && !one.grown) stay.push_back(&one);
    for (Player* one : stay)
      if (auto d = growing.replan(*one)) decisions.push_back(std::move(*d));
    const Payoff weighs = payoff(input);
    for (Decision& d : replacing_.find({options_, input, weighs}, stay)) decisions.push_back(std::move(d));
  }

  void trade(const PlanningInput& input, const WaitingPlan& served, std::vector<Decision>& decisions) {
    if (options_.as_printed) return;
    const auto may_give = [&](const Player& one) {
      return one.job->step_seconds > 0 && rested(*one.job, input) &&
             std::none_of(decisions.begin(), decisions.end(), [&](const Decision& d) { return d.job == one.job->id; });
    };
    const Payoff weighs = payoff(input);
    const Trades::Market market{options_, input, *site_, served.supplies, expand_, threshold_, weighs};
    for (Decision& d : trades_.find(market, players_, may_give)) decisions.push_back(std::move(d));
  }

  void forecast_idle(const PlanningInput& input, const WaitingPlan& served) {
    idle_.reset();
    if (options_.as_printed || !options_.idle_forecast) return;
    std::size_t idle = 0;
    for (const Supply& supply : served.supplies) idle += supply.gpus.size();
    idle_ = idle_forecast(static_cast<int>(idle), input.arrivals, input.now, *options_.idle_forecast);
  }
  Payoff payoff(const PlanningInput& input) const { return {options_, input, idle_ ? &*idle_ : nullptr}; }

  void look(const PlanningInput& input, Player& one, const IdleGpus& idle) {
    if (options_.eager) one.virtual_job->forget();
    one.virtual_job->explore(idle.for_job(*one.job, one.virtual_job->problem().bounds), expand_);
    one.doubtful.clear();
    one.slow_placed.clear();
    one.best = payoff(input).best_of(one);
    one.fresh = true;
    one.shifted = false;
  }

  // Called after other jobs took GPUs. Mostly equal GPUs are left, and the best prefix is the same.
  void look_again(const PlanningInput& input, Player& one, const IdleGpus& idle) {
    const ScaleOut before = one.best;
    one.virtual_job->explore(idle.for_job(*one.job, one.virtual_job->problem().bounds), expand_, false);
    one.doubtful.clear();
    one.slow_placed.clear();
    one.best = payoff(input).best_of(one);
    one.fresh = one.best.prefix == before.prefix;
    one.shifted = false;
    if (!one.fresh) look(input, one, idle);
  }

  // A job's first step only: the search takes slow links between stages for fast ones, and a plan that they make slow
  // would win GPUs that the job then does not take, in every decision anew, while others go without.
  bool pays_as_placed(const PlanningInput& input, const Player& one) const {
    if (options_.as_printed || one.grown) return true;
    const VirtualJob& job = *one.virtual_job;
    const PrefixPlan& chosen = job.prefixes()[one.best.prefix];
    const auto plan = materialize(job.problem(), chosen.plan.sketch, *one.job, job.held_with(one.best.prefix));
    return plan && payoff(input).pays_as_placed(one, chosen.plan.sketch, *plan, chosen.gpus);
  }

  // The next job to grow: the one with the highest benefit. A stale benefit counts for a little
  // more than its old value, because benefits mostly, but not always, fall as GPUs are taken. A
  // stale job is looked at again before it may win. The many jobs below it are not.
  Player* next_winner(const PlanningInput& input, const IdleGpus& idle) {
    constexpr double kStaleBonus = 1.15;
    for (;;) {
      Player* top = nullptr;
      double most = 0;
      for (Player& one : players_) {
        const double hope = one.grows && one.best.prefix > 0 ? one.best.benefit * (one.fresh ? 1 : kStaleBonus) : 0;
        if (hope >= threshold_ && hope * one.turn > most) most = hope * one.turn, top = &one;
      }
      if (top == nullptr) return nullptr;
      if (top->fresh && !top->shifted) {
        const PrefixPlan& chosen = top->virtual_job->prefixes()[top->best.prefix];
        if (!pays_as_placed(input, *top)) {
          if (++looks_ > options_.looks) return nullptr;
          top->slow_placed.insert(top->best.prefix);
        } else if (!payoff(input).holds_if_assumed(*top, chosen.plan.sketch, chosen.gpus)) {
          if (top->doubtful.empty()) top->doubted = top->best;
          top->doubtful.insert(top->best.prefix);
        } else {
          return top;
        }
        top->best = payoff(input).best_of(*top);
        continue;
      }
      if (++looks_ > options_.looks) return nullptr;
      look_again(input, *top, idle);
    }
  }

  void rounds(const PlanningInput& input, const WaitingPlan& served) {
    looks_ = 0;
    const Growing growing(options_, input, *site_, threshold_, payoff(input));
    IdleGpus idle(served.supplies, *site_, input.closed);
    int replans = 0;
    for (Player& one : players_) {
      if (!one.grows) continue;
      if (growing.may_replan(one) && !one.virtual_job->is_replanned() &&
          (options_.eager || replans++ < kReplansPerDecision))
        one.virtual_job->replanned(kReplanEffort);
      if (one.virtual_job->is_replanned())
        one.base_exact =
            std::min(one.base_exact,
                     one.virtual_job->evaluator().exact_sketch(one.virtual_job->replanned(kReplanEffort).sketch));
      look(input, one, idle);
    }
    for (int round = 0; round < options_.rounds && !idle.empty(); ++round) {
      Player* winner = next_winner(input, idle);
      if (winner == nullptr) break;
      const auto units = winner->virtual_job->units();
      const std::size_t count = winner->best.prefix;
      if (!winner->grown) {
        winner->candidates = candidates_of(*winner->virtual_job, count, threshold_, winner->discount,
                                           options_.least_gain, winner->job->step_seconds / winner->first_ms);
        for (const std::size_t doubtful : winner->doubtful)
          for (Candidate& candidate : winner->candidates)
            if (candidate.gpus == winner->virtual_job->prefixes()[doubtful].gpus)
              candidate.rejected_by = "its gain does not hold over the whole range of what is assumed";
        for (const std::size_t slow : winner->slow_placed)
          for (Candidate& candidate : winner->candidates)
            if (candidate.gpus == winner->virtual_job->prefixes()[slow].gpus) candidate.rejected_by = kSlowPlaced;
        winner->first_benefit = winner->best.benefit;
      }
      winner->grown = true;
      winner->virtual_job->apply(count);
      // With what it has won it is less short of time. What it wins next must be worth it all the same, or would be
      // taken back (Shrinking::reclaim).
      winner->discount =
          (options_.discount ? options_.discount(*winner->job) : 1) *
          winner->standing.discount_if(*winner->job, input.now, winner->virtual_job->present().ms / winner->first_ms);
      idle.take(units, count);
      std::vector<int> touched;
      for (std::size_t i = 0; i < count; ++i) touched.push_back(units[i].node);
      std::sort(touched.begin(), touched.end());
      // Only jobs that looked at the taken nodes see a change now. The results of all other jobs
      // stay valid.
      winner->fresh = false;
      for (Player& one : players_) {
        if (!one.grows || one.best.prefix == 0 || !one.virtual_job->looks_at(touched)) continue;
        one.shifted = true;
        one.fresh = one.fresh && idle.has(one.virtual_job->units(), one.best.prefix);
      }
      if (options_.eager) {
        for (Player& one : players_)
          if (one.grows) look(input, one, idle);
      } else {
        look(input, *winner, idle);
      }
    }
    for (Player& one : players_)
      if (one.grows && !one.grown) weighed_.push_back(verdict_of(one, threshold_));
  }

  const SchedulerOptions options_;
  ExpandOptions expand_;
  std::shared_ptr<const Site> site_;
  double threshold_ = 0;
  int looks_ = 0;
  StageBooks books_;
  KnownJobs known_;
  // Of jobs that have changed since, or are changing.
  KnownJobs spent_;
  std::vector<Player> players_;
  std::vector<Weighed> weighed_;
  Trades trades_;
  Replacing replacing_;
  std::optional<IdleForecast> idle_;  // of this decision
};

}  // namespace

std::unique_ptr<Scheduler> make_suika_scheduler(const SchedulerOptions& options) {
  return std::make_unique<Suika>(options);
}

}  // namespace espalier
