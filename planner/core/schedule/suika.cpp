// Algorithm 2 (Suika §3.2.3). Waiting jobs are served first. Scale-outs below the threshold are
// given back. Then, in rounds, the best (job, prefix) takes its GPUs in a virtual cluster. The
// result is at most one reconfiguration per job.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "planner/core/error.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/schedule/benefit.hpp"
#include "planner/core/schedule/describe_sketch.hpp"
#include "planner/core/schedule/growth_record.hpp"
#include "planner/core/schedule/idle_gpus.hpp"
#include "planner/core/schedule/intensity.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/materialize.hpp"
#include "planner/core/schedule/neutral_site.hpp"
#include "planner/core/schedule/state_transfer.hpp"
#include "planner/core/schedule/virtual_job.hpp"
#include "planner/core/waiting.hpp"

namespace espalier {
namespace {

// Many remainders are weighed for each one that is used, so local search is left out here. The
// plans are then a little slower than possible, which favours keeping scale-outs.
constexpr SearchEffort kStackEffort{1, 0, 0};
constexpr SearchEffort kShrinkEffort{1, 4, 0, 1'000};
constexpr SearchEffort kPolishEffort{1, 6, 1000, 2'000};
// A planner that starts on a full cluster sees hundreds of jobs at once. The remaining jobs are
// replanned at the next events.
constexpr int kReplansPerDecision = 8;
constexpr SearchEffort kReplanEffort{1, 4, 0, 2'000};

// A job in one decision.
struct Player {
  const ElasticJob* job = nullptr;
  VirtualJob* virtual_job = nullptr;
  double discount = 1;
  // Factor on its benefits when the next job to grow is chosen.
  double turn = 1;
  // Times of its plan at the beginning of the decision: printed and exact.
  double first_ms = 0;
  double first_exact = 0;
  // Exact time of the best plan known on its present GPUs. Benefits are measured against it.
  double base_exact = 0;
  double first_size = 0;  // size of its GPUs at the beginning
  int first_gpus = 0;
  std::vector<NodeGpus> first_held;
  bool grows = false;  // takes part in the rounds
  bool grown = false;
  bool fresh = false;    // `best` is still available
  bool shifted = false;  // `best` is available, but on other GPUs that the job has not looked at
  ScaleOut best;
  std::vector<Candidate> candidates;  // of the first round that it won
  double first_benefit = 0;
};

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
    auto decisions = shrinks(input, served);
    reclaim_below_threshold(input, stacks, decisions);
    for (const Decision& d : decisions) player(d.job)->grows = false;
    rounds(input, served);
    for (Player& one : players_)
      if (one.grown)
        if (auto d = growth(input, one, served.supplies)) decisions.push_back(std::move(*d));
    for (Player& one : players_)
      if (one.grows && !one.grown)
        if (auto d = replan(input, one)) decisions.push_back(std::move(*d));
    // A VirtualJob that has grown shows an imagined state. It must not be reused as the job's real
    // state.
    for (const Player& one : players_)
      if (one.grown) {
        const auto imagined = known_.find(one.job->id);
        spent_[one.job->id] = std::move(imagined->second);
        known_.erase(imagined);
      }
    std::sort(decisions.begin(), decisions.end(), [](const Decision& a, const Decision& b) { return a.job < b.job; });
    std::sort(weighed_.begin(), weighed_.end(), [](const Weighed& a, const Weighed& b) { return a.job < b.job; });
    players_.clear();
    return decisions;
  }

 private:
  // ---- participants
  void enter(const PlanningInput& input) {
    std::map<JobId, std::unique_ptr<VirtualJob>> kept;
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
        weighed_.push_back({job.id, 0, 0, threshold_, "its plan cannot be scored on this cluster"});
        continue;
      }
      Player one;
      one.job = &job;
      one.virtual_job = slot.get();
      one.discount = options_.discount ? options_.discount(job) : 1;
      one.first_ms = slot->present().ms;
      one.first_exact = slot->evaluator().exact_sketch(slot->present().sketch);
      one.base_exact = one.first_exact;
      one.first_size = slot->size_of(slot->held());
      one.first_gpus = slot->present().sketch.gpus();
      one.first_held = slot->held();
      if (!options_.as_printed) one.turn = std::pow(one.first_size, -options_.small_first);
      one.grows = may_grow(job, input);
      players_.push_back(std::move(one));
    }
    for (auto& [id, left] : known_)
      if (left) spent_[id] = std::move(left);
    known_ = std::move(kept);
    std::erase_if(spent_, [&](const auto& entry) {
      return known_.contains(entry.first) ||
             !std::binary_search(input.jobs.begin(), input.jobs.end(), entry.first, BeforeById{});
    });
  }

  // Reuses the last decision's VirtualJob or makes a new one. nullptr: the plan cannot be scored. A
  // launcher's claims may be arbitrary; they must not prevent planning for other jobs.
  std::unique_ptr<VirtualJob> virtual_job(const ElasticJob& job, const PlanningInput& input) {
    try {
      const auto given = input.coefficients.find(job.id);
      const JobCoefficients coefficients = given != input.coefficients.end() ? given->second : assumed_for(job, *site_);
      const auto found = known_.find(job.id);
      if (found != known_.end() && found->second && found->second->stands_for(job, site_, coefficients))
        return std::move(found->second);
      auto made = VirtualJob::make(job, site_, coefficients, options_.data_parallel_only, &books_);
      for (auto* earlier : {&known_, &spent_})
        if (const auto before = earlier->find(job.id); made && before != earlier->end() && before->second) {
          made->inherit(*before->second);
          break;
        }
      return made;
    } catch (const Error&) {
      return nullptr;
    }
  }

  bool may_grow(const ElasticJob& job, const PlanningInput& input) const {
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

  Decision decision(const PlanningInput& input, const ElasticJob& job, DecisionKind kind) const {
    Decision d;
    d.time = input.now;
    d.trigger = input.trigger;
    d.kind = kind;
    d.job = job.id;
    return d;
  }

  // Gives back `leaving` (sorted), and extensions that the smaller plan does not use. nullopt: no
  // valid plan.
  std::optional<Decision> shrink(const PlanningInput& input, Player& one, std::vector<JobId> leaving) {
    auto below = one.virtual_job->shrunk_to(one.virtual_job->held_without(leaving), shrink_effort());
    if (!below) return std::nullopt;
    leave_what_brings_nothing(one, *below, leaving);
    auto plan =
        materialize(one.virtual_job->problem(), below->sketch, *one.job, one.virtual_job->held_without(leaving));
    if (!plan) return std::nullopt;
    Decision d = decision(input, *one.job, DecisionKind::shrink);
    add_unused(*one.job, *plan, leaving);
    d.release = std::move(leaving);
    d.plan = std::move(*plan);
    d.predicted_step_seconds =
        one.job->step_seconds * one.virtual_job->evaluator().exact_sketch(below->sketch) / one.first_exact;
    d.candidates.push_back({describe_sketch(below->sketch, site_->topology),
                            d.plan.gpu_count() - one.first_gpus,
                            d.predicted_step_seconds,
                            0,
                            {}});
    return d;
  }

  // The paper undoes scale-outs in the order of their history, without a search of its own.
  const SearchEffort& shrink_effort() const { return options_.as_printed ? kStackEffort : kShrinkEffort; }

  // If the plan leaves GPUs idle, it may be as fast without a whole extension. Such extensions are
  // given back too: first the ones that hold no state, then the newest.
  void leave_what_brings_nothing(Player& one, WorkingPlan& below, std::vector<JobId>& leaving) const {
    VirtualJob& job = *one.virtual_job;
    std::vector<JobId> extensions;
    for (const Holding& held : one.job->extensions) extensions.push_back(held.job);
    std::vector<JobId> unused;
    add_unused(*one.job, *one.job->plan, unused);
    const auto before = [&](JobId a, JobId b) {
      return std::pair(!std::binary_search(unused.begin(), unused.end(), a), b) <
             std::pair(!std::binary_search(unused.begin(), unused.end(), b), a);
    };
    std::sort(extensions.begin(), extensions.end(), before);
    extensions.erase(std::unique(extensions.begin(), extensions.end()), extensions.end());
    auto kept = pieces_of(job.held_without(leaving), *site_);
    for (const JobId extension : extensions) {
      if (std::binary_search(leaving.begin(), leaving.end(), extension)) continue;
      const int spare = count_gpus(kept) - below.sketch.gpus();
      if (spare == 0) return;
      auto more = leaving;
      more.insert(std::upper_bound(more.begin(), more.end(), extension), extension);
      const auto held = job.held_without(more);
      auto fewer = pieces_of(held, *site_);
      if (count_gpus(kept) - count_gpus(fewer) > spare) continue;
      if (!fits(below.sketch, fewer)) {
        auto less = job.shrunk_to(held, kStackEffort);
        if (!less || job.evaluator().exact_sketch(less->sketch) > job.evaluator().exact_sketch(below.sketch)) continue;
        below = std::move(*less);
      }
      leaving = std::move(more);
      kept = std::move(fewer);
    }
  }

  static void add_unused(const ElasticJob& job, const Plan& plan, std::vector<JobId>& leaving) {
    std::map<std::string, std::vector<int>> ranks;
    for (const GpuId& gpu : plan.ranks()) ranks[gpu.node].push_back(gpu.index);
    for (const Holding& held : job.extensions) {
      const std::vector<int>& here = ranks[held.node];
      const bool used = std::any_of(held.gpus.begin(), held.gpus.end(), [&](int index) {
        return std::find(here.begin(), here.end(), index) != here.end();
      });
      if (!used && std::find(leaving.begin(), leaving.end(), held.job) == leaving.end()) leaving.push_back(held.job);
    }
    std::sort(leaving.begin(), leaving.end());
  }

  static int gpus_in(const ElasticJob& job, const std::vector<JobId>& extensions) {
    std::size_t sum = 0;
    for (const Holding& held : job.extensions)
      if (std::binary_search(extensions.begin(), extensions.end(), held.job)) sum += held.gpus.size();
    return static_cast<int>(sum);
  }

  std::vector<Decision> shrinks(const PlanningInput& input, const WaitingPlan& served) {
    std::vector<Decision> result;
    for (Player& one : players_) {
      const auto found = served.reclaims.find(one.job->id);
      if (found == served.reclaims.end()) continue;
      auto d = shrink(input, one, found->second.extensions);
      if (!d) continue;
      d->reason = "job " + std::to_string(found->second.waiting.front()) +
                  (found->second.waiting.size() > 1 ? " and others wait" : " waits") +
                  " for GPUs that extensions hold: give back " + std::to_string(gpus_in(*one.job, d->release)) +
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
      const StackTop* deepest = nullptr;
      for (const StackTop& top : stack)
        if (top.benefit * one.discount < limit) deepest = &top;
      if (deepest == nullptr) continue;
      auto d = shrink(input, one, deepest->extensions);
      if (!d) continue;
      char text[160];
      std::snprintf(text, sizeof text,
                    deepest->benefit > 0 ? "the cluster has filled: a benefit of %.3g is below the threshold of %.3g"
                                         : "extensions make it no faster (a benefit of %.3g, the threshold is %.3g)",
                    deepest->benefit * one.discount, limit);
      d->reason = std::string(text) + ": give back " + std::to_string(gpus_in(*one.job, d->release)) +
                  " GPUs, run on " + std::to_string(d->plan.gpu_count());
      d->candidates.front().benefit = deepest->benefit * one.discount;
      decisions.push_back(std::move(*d));
    }
  }

  // Seconds until the job ends at its present speed. Infinity: its steps are not known.
  static double remaining_seconds(const ElasticJob& job) {
    if (job.total_steps <= 0 || job.step_seconds <= 0) return std::numeric_limits<double>::infinity();
    return static_cast<double>(std::max<std::int64_t>(0, job.total_steps - job.step)) * job.step_seconds;
  }

  bool worth_its_cost(const PlanningInput& input, const Player& one, double present_ms, double next_ms,
                      const PlanSketch& next, int gpus) const {
    if (next_ms * options_.least_gain > present_ms) return false;
    double idle = options_.likely_idle_seconds ? options_.likely_idle_seconds(input, gpus) : options_.idle_seconds;
    // A change gains nothing after the job's end.
    if (!options_.as_printed) idle = std::min(idle, remaining_seconds(*one.job) - options_.start_seconds);
    const auto measured = input.redeploy_seconds.find(one.job->id);
    const double known = measured != input.redeploy_seconds.end() ? measured->second : options_.redeploy_seconds;
    const double won = (present_ms / next_ms - 1) * idle;
    return won > known && won > transfer_seconds(one.virtual_job->problem(), next, one.first_held);
  }

  // The search ignores activations on slow links between stages. Its result is therefore checked
  // once more, GPU by GPU.
  bool pays_as_placed(const PlanningInput& input, const Player& one, const PlanSketch& sketch, const Plan& plan,
                      int gpus) const {
    const Problem& problem = one.virtual_job->problem();
    const auto exact_ms = [&](const Plan& placed) {
      return evaluate_plan(problem.hardware, problem.topology, problem.job, placed).exact_ms;
    };
    return worth_its_cost(input, one, exact_ms(*one.job->plan), exact_ms(plan), sketch, gpus);
  }

  // The best prefix that is worth its cost. Prefix 0: none is.
  ScaleOut best_of(const PlanningInput& input, const Player& one) const {
    ScaleOut best;
    const auto& prefixes = one.virtual_job->prefixes();
    for (std::size_t i = 1; i < prefixes.size(); ++i) {
      if (!prefixes[i].plan.feasible()) continue;
      if (!worth_its_cost(input, one, one.virtual_job->present().ms, prefixes[i].plan.ms, prefixes[i].plan.sketch,
                          prefixes[i].gpus))
        continue;
      const double benefit = one.virtual_job->benefit_of(i) * one.discount;
      if (benefit > best.benefit) best = {i, benefit, prefixes[i].plan.ms};
    }
    return best;
  }

  void look(const PlanningInput& input, Player& one, const IdleGpus& idle) {
    if (options_.eager) one.virtual_job->forget();
    one.virtual_job->explore(idle.for_job(*one.job, one.virtual_job->problem().bounds), expand_);
    one.best = best_of(input, one);
    one.fresh = true;
    one.shifted = false;
  }

  // Called after other jobs took GPUs. Mostly equal GPUs are left, and the best prefix is the same.
  void look_again(const PlanningInput& input, Player& one, const IdleGpus& idle) {
    const ScaleOut before = one.best;
    one.virtual_job->explore(idle.for_job(*one.job, one.virtual_job->problem().bounds), expand_, false);
    one.best = best_of(input, one);
    one.fresh = one.best.prefix == before.prefix;
    one.shifted = false;
    if (!one.fresh) look(input, one, idle);
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
      if (top->fresh && !top->shifted) return top;
      if (++looks_ > options_.looks) return nullptr;
      look_again(input, *top, idle);
    }
  }

  void rounds(const PlanningInput& input, const WaitingPlan& served) {
    looks_ = 0;
    IdleGpus idle(served.supplies, *site_);
    int replans = 0;
    for (Player& one : players_) {
      if (!one.grows) continue;
      if (may_replan(input, one) && !one.virtual_job->is_replanned() &&
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
        winner->first_benefit = winner->best.benefit;
      }
      winner->grown = true;
      winner->virtual_job->apply(count);
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
    for (const Player& one : players_) {
      if (!one.grows || one.grown) continue;
      Weighed note{one.job->id, 0, one.best.benefit, threshold_, {}};
      if (one.best.prefix > 0) note.gpus = one.virtual_job->prefixes()[one.best.prefix].gpus;
      if (one.virtual_job->prefixes().size() <= 1) note.verdict = "there are no idle GPUs for it";
      else if (one.best.prefix == 0) note.verdict = "no set of the idle GPUs would pay for the change";
      else note.verdict = "its best marginal benefit is below the threshold";
      weighed_.push_back(std::move(note));
    }
  }

  // The planner's own search on a winner's final GPUs. The exact recurrence decides.
  void polish(Player& one) {
    if (options_.as_printed) return;
    VirtualJob& job = *one.virtual_job;
    const auto pieces = pieces_of(job.held(), *site_);
    const auto found = best_plan(job.evaluator(), pieces, std::span(&job.present().sketch, 1), kPolishEffort);
    if (!found || found->ms >= job.present().ms) return;
    WorkingPlan better = working_plan(job.evaluator(), found->sketch, true);
    if (job.evaluator().exact_sketch(better.sketch) < job.evaluator().exact_sketch(job.present().sketch))
      job.settle(std::move(better));
  }

  std::optional<Decision> growth(const PlanningInput& input, Player& one, std::vector<Supply>& supplies) {
    polish(one);
    VirtualJob& job = *one.virtual_job;
    auto plan = materialize(job.problem(), job.present().sketch, *one.job, job.held());
    if (!plan) return std::nullopt;
    if (!pays_as_placed(input, one, job.present().sketch, *plan, plan->gpu_count() - one.first_gpus))
      return std::nullopt;
    Decision d = decision(input, *one.job, DecisionKind::grow);
    const double exact = job.evaluator().exact_sketch(job.present().sketch);
    d.predicted_step_seconds = one.job->step_seconds * exact / one.first_exact;
    std::set<GpuId> own;
    for (const auto* holdings : {&one.job->anchor, &one.job->extensions})
      for (const Holding& held : *holdings)
        for (const int gpu : held.gpus) own.insert({held.node, gpu});
    std::map<std::string, std::vector<int>> wanted;
    for (const GpuId& gpu : plan->ranks())
      if (!own.contains(gpu)) wanted[gpu.node].push_back(gpu.index);
    if (wanted.empty()) return std::nullopt;
    int extra = 0;
    for (Supply& supply : supplies) {
      const auto want = wanted.find(supply.node->name);
      if (want == wanted.end()) continue;
      const std::vector<int>& taken = want->second;
      const int count = static_cast<int>(taken.size());
      const ExtensionRequest request = request_for(supply, count);
      std::erase_if(supply.gpus, [&](int gpu) { return std::find(taken.begin(), taken.end(), gpu) != taken.end(); });
      supply.free_cpus -= request.cpus;
      supply.free_memory_mb -= request.memory_mb;
      extra += count;
      d.acquire.push_back(request);
    }
    char text[200];
    std::snprintf(
        text, sizeof text,
        "%d idle GPUs on %zu node(s): from %s to a predicted %s per step (marginal benefit %.3g, threshold %.3g)",
        extra, d.acquire.size(), seconds_text(one.job->step_seconds).c_str(),
        seconds_text(d.predicted_step_seconds).c_str(), one.first_benefit, threshold_);
    d.reason = text;
    add_unused(*one.job, *plan, d.release);
    if (!d.release.empty()) d.kind = DecisionKind::migrate;
    d.candidates = std::move(one.candidates);
    choose_among(d, one);
    d.plan = std::move(*plan);
    return d;
  }

  // The first round's choice is the final plan only if no further round and no search changed it.
  void choose_among(Decision& d, const Player& one) const {
    const PlanSketch& final = one.virtual_job->present().sketch;
    const Candidate winner{
        describe_sketch(final, site_->topology),
        final.gpus() - one.first_gpus,
        d.predicted_step_seconds,
        marginal_benefit(one.first_size, one.virtual_job->size_of(one.virtual_job->held()) - one.first_size,
                         one.base_exact, one.first_exact * d.predicted_step_seconds / one.job->step_seconds) *
            one.discount,
        {}};
    for (Candidate& candidate : d.candidates)
      if (candidate.rejected_by.empty())
        candidate.rejected_by = candidate.gpus < winner.gpus ? "chosen first, then grown further in the same decision"
                                                             : "chosen first, then a faster plan was found on its GPUs";
    std::erase_if(d.candidates, [&](const Candidate& candidate) { return candidate.plan == winner.plan; });
    d.candidates.push_back(winner);
  }

  bool may_replan(const PlanningInput& input, const Player& one) const {
    return !options_.as_printed && input.coefficients.contains(one.job->id);
  }

  // A better plan on the same GPUs. Only if coefficients were observed and the change is worth its
  // cost.
  std::optional<Decision> replan(const PlanningInput& input, Player& one) {
    VirtualJob& job = *one.virtual_job;
    if (!may_replan(input, one) || !job.is_replanned()) return std::nullopt;
    const WorkingPlan& better = job.replanned(kReplanEffort);
    const double now = one.first_exact, next = job.evaluator().exact_sketch(better.sketch);
    if (!worth_its_cost(input, one, now, next, better.sketch, 0)) return std::nullopt;
    auto plan = materialize(job.problem(), better.sketch, *one.job, job.held());
    if (!plan || *plan == *one.job->plan || !pays_as_placed(input, one, better.sketch, *plan, 0)) return std::nullopt;
    Decision d = decision(input, *one.job, DecisionKind::migrate);
    add_unused(*one.job, *plan, d.release);
    d.predicted_step_seconds = one.job->step_seconds * next / now;
    d.reason = "a faster plan on the GPUs it has: from " + seconds_text(one.job->step_seconds) + " to a predicted " +
               seconds_text(d.predicted_step_seconds) + " per step";
    d.candidates.push_back({describe_sketch(better.sketch, site_->topology),
                            better.sketch.gpus() - one.first_gpus,
                            d.predicted_step_seconds,
                            0,
                            {}});
    d.plan = std::move(*plan);
    return d;
  }

  const SchedulerOptions options_;
  ExpandOptions expand_;
  std::shared_ptr<const Site> site_;
  double threshold_ = 0;
  int looks_ = 0;
  StageBooks books_;
  std::map<JobId, std::unique_ptr<VirtualJob>> known_;
  // Of jobs that have changed since, or are changing.
  std::map<JobId, std::unique_ptr<VirtualJob>> spent_;
  std::vector<Player> players_;
  std::vector<Weighed> weighed_;
};

}  // namespace

std::unique_ptr<Scheduler> make_suika_scheduler(const SchedulerOptions& options) {
  return std::make_unique<Suika>(options);
}

}  // namespace espalier
