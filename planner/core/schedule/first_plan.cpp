#include "planner/core/schedule/first_plan.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <utility>

#include "planner/core/data_parallel.hpp"
#include "planner/core/error.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/materialize.hpp"
#include "planner/core/schedule/weighed_plans.hpp"
#include "planner/core/solver/best_plan.hpp"

namespace espalier {
namespace {

constexpr SearchEffort kEffort{3, 20, 50'000};
constexpr std::size_t kMany = 512;
constexpr int kFewer = 32;  // GPUs that a plan may leave idle only because their number has no divisor that suits

std::vector<GpuId> gpus_of(const ElasticJob& job) {
  std::vector<GpuId> gpus;
  for (const auto* holdings : {&job.anchor, &job.extensions})
    for (const Holding& held : *holdings)
      for (const int gpu : held.gpus) gpus.push_back({held.node, gpu});
  return gpus;
}

// `plan` on `gpus`, in the order of its ranks. nullopt: there are too few, or a replica would lie on
// two nodes.
std::optional<Plan> on_gpus(Plan plan, const std::vector<GpuId>& gpus) {
  if (static_cast<std::size_t>(plan.gpu_count()) > gpus.size()) return std::nullopt;
  std::size_t next = 0;
  for (Stage& stage : plan.stages)
    for (Replica& replica : stage.replicas)
      for (GpuId& gpu : replica.gpus) gpu = gpus[next++];
  if (!validate(plan).empty()) return std::nullopt;
  return plan;
}

// Each run of `tp` GPUs is on one node.
bool groups(const std::vector<GpuId>& gpus, int count, int tp) {
  for (int i = 0; i + tp <= count; i += tp)
    for (int k = 1; k < tp; ++k)
      if (gpus[static_cast<std::size_t>(i + k)].node != gpus[static_cast<std::size_t>(i)].node) return false;
  return true;
}

class FirstSearch {
 public:
  FirstSearch(const ElasticJob& job, const Site& site, const JobCoefficients& coefficients, RankOrder order)
      : job_(job),
        site_(site),
        coefficients_(as_the_job_allows(coefficients, job)),
        bounds_(bounds_of(without_plan(job), site)),
        order_(order),
        gpus_(gpus_of(job)) {
    if (data_parallel_only(job) && bounds_.fixed_tp == 0 && !any_measured()) bounds_.fixed_tp = preferred_unit();
    const int batch = job.model.global_batch;
    for (int count = 1; count <= batch; ++count)
      if (batch % count == 0 && (bounds_.fixed_micro_batches == 0 || count == bounds_.fixed_micro_batches))
        counts_.push_back(count);
    // A plan of many GPUs takes long to weigh. The solver tries all counts for them.
    if (gpus_.size() > kMany && counts_.size() > 3)
      counts_ = {counts_.front(), counts_[counts_.size() / 2], counts_.back()};
  }

  FirstPlan solve() {
    if (gpus_.empty()) throw Error("job " + std::to_string(job_.id) + ": has no GPUs to plan for");
    if (job_.parallel.first) return given_by_user();
    if (data_parallel_only(job_)) demand_samples();
    for (const bool activations : {true, false}) {
      weighed_.begin(activations);
      look_at_uniform_plans();
      if (activations) look_at_solver();
      if (!weighed_.none_fits()) return weighed_.best();
    }
    throw Error(why_none());
  }

 private:
  static ElasticJob without_plan(ElasticJob job) {
    job.plan.reset();
    return job;
  }

  bool any_measured() const {
    return std::any_of(coefficients_.gpu.begin(), coefficients_.gpu.end(),
                       [](const GpuCoefficients& gpu) { return !gpu.assumed_comp; });
  }

  // Replica sizes of a program whose inside is unknown, those that it likes best first.
  std::vector<int> units() const {
    const ParallelLimits& limits = job_.parallel;
    return limits.tp_degrees.empty() ? std::vector{std::max(1, limits.tp)} : limits.tp_degrees;
  }
  bool divides(int unit) const {
    const int count = static_cast<int>(gpus_.size());
    return order_ == RankOrder::given ? count % unit == 0 : count >= unit;
  }
  // The first one of which the GPUs hold whole replicas, each on one node and with a sample. 0: none. What a size costs
  // is not known before it is measured, so the program's order decides.
  int preferred_unit() const {
    const int count = static_cast<int>(gpus_.size());
    for (const int unit : units()) {
      const int replicas = std::min(count / unit, job_.model.global_batch);
      const bool all_used = order_ != RankOrder::given || replicas * unit == count;
      if (divides(unit) && replicas > 0 && all_used && groups(gpus_, replicas * unit, unit)) return unit;
    }
    return 0;
  }

  // Without enough samples, or with GPUs that fill no replica, no plan uses the ranks that run.
  void demand_samples() const {
    const int count = static_cast<int>(gpus_.size());
    const std::string start = "no plan on " + std::to_string(count) + " GPU(s): ";
    const std::vector<int> sizes = units();
    if (order_ != RankOrder::given) return;
    if (std::none_of(sizes.begin(), sizes.end(), [&](int unit) { return divides(unit); })) {
      std::string names = std::to_string(sizes.front());
      for (std::size_t i = 1; i < sizes.size(); ++i) names += " or " + std::to_string(sizes[i]);
      throw Error(start + "the program takes GPUs in groups of " + names + "; ask Slurm for a multiple of that");
    }
    if (std::none_of(sizes.begin(), sizes.end(),
                     [&](int unit) { return divides(unit) && count / unit <= job_.model.global_batch; }))
      throw Error(start + "the program's global batch is " + std::to_string(job_.model.global_batch) +
                  " samples, and each replica needs one; ask Slurm for fewer GPUs or make the global batch larger");
  }

  // The user's plan; where the planner chooses the schedule and the plan names none, the best on equal stages.
  Plan by_user(Plan plan) const {
    if (chooses_schedule(job_) && !plan.schedule.empty()) return plan;
    const int stages = static_cast<int>(plan.stages.size());
    const PipelineForm form =
        chooses_schedule(job_) ? best_on_equal_stages(forms_of(job_), stages, plan.micro_batches) : PipelineForm{};
    return in_its_form(std::move(plan), form, job_);
  }

  FirstPlan given_by_user() {
    const Plan& wanted = *job_.parallel.first;
    const std::string what = "[parallel] plan: ";
    if (const auto broken = validate(wanted, job_.model.layers); !broken.empty()) throw Error(what + broken.front());
    if (wanted.global_batch != job_.model.global_batch)
      throw Error(what + "its global_batch is " + std::to_string(wanted.global_batch) + ", training.global_batch is " +
                  std::to_string(job_.model.global_batch));
    const int count = static_cast<int>(gpus_.size());
    if (wanted.gpu_count() > count || (order_ == RankOrder::given && wanted.gpu_count() != count))
      throw Error(what + "it is for " + std::to_string(wanted.gpu_count()) + " GPUs, the job has " +
                  std::to_string(count) + "; ask Slurm for as many, or change the plan");
    const auto plan = on_gpus(by_user(wanted), gpus_);
    if (!plan)
      throw Error(what + "a replica would lie on two nodes of this allocation; ask for fewer nodes, or lower its tp");
    const Prediction all = evaluate_plan(site_.hardware, site_.topology, coefficients_, *plan);
    FirstPlan result{*plan, all.exact_ms, {{describe(*plan), plan->gpu_count(), 0, 0, {}}}, {}};
    if (!all.feasible) result.remark = "the model doubts the user's plan: " + all.why_not;
    return result;
  }

  void look_at_uniform_plans() {
    look_at_uniform_plans(static_cast<int>(gpus_.size()));
    if (!weighed_.none_fits() || order_ == RankOrder::given) return;
    // Fewer GPUs than all only if no plan uses all: a number of GPUs need not have a divisor that suits.
    const std::vector<int> numbers = alike_numbers();
    for (const int count : numbers) look_at_leanest(count);
    if (weighed_.none_fits()) return;  // on whatever number of GPUs
    auto lean = weighed_.set_aside();
    for (const int count : numbers)
      for (int used = count; used >= std::max({1, bounds_.min_gpus, count - kFewer}) && weighed_.none_fits(); --used)
        look_at_uniform_plans(used);
    if (weighed_.none_fits()) weighed_.put_back(std::move(lean));
  }

  // All GPUs, and those before the ones of another type, which may have less memory. The most first.
  std::vector<int> alike_numbers() const {
    constexpr std::size_t kMost = 8;
    const auto type = [&](const GpuId& gpu) {
      const int node = site_.topology.find(gpu.node);
      return node < 0 ? -1 : static_cast<int>(site_.topology.gpu_types(node).at(static_cast<std::size_t>(gpu.index)));
    };
    std::vector<int> numbers;
    for (std::size_t i = 1; i < gpus_.size() && numbers.size() < kMost; ++i)
      if (gpus_[i].node != gpus_[i - 1].node && type(gpus_[i]) != type(gpus_[i - 1]))
        numbers.push_back(static_cast<int>(i));
    numbers.push_back(static_cast<int>(gpus_.size()));
    std::reverse(numbers.begin(), numbers.end());
    return numbers;
  }

  void look_at_uniform_plans(int used) {
    for (const int tp : coefficients_.tp_degrees) {
      if (used % tp != 0 || (bounds_.fixed_tp > 0 && tp != bounds_.fixed_tp) || !groups(gpus_, used, tp)) continue;
      for (int pp = 1; pp <= std::min(job_.model.layers, used / tp); ++pp) {
        if ((used / tp) % pp != 0 || (bounds_.fixed_pp > 0 && pp != bounds_.fixed_pp)) continue;
        const int dp = used / tp / pp;
        if (bounds_.fixed_dp > 0 && dp != bounds_.fixed_dp) continue;
        look_at_micro_batches(pp, dp, tp, used);
      }
    }
  }

  // On the first `count` GPUs: of each number of stages and TP degree the plans that may need the least memory. More
  // replicas divide an optimizer's state further (ZeRO-1), and may have larger shares where their number does not
  // divide the batch. So each number of replicas with smaller shares than all larger numbers is looked at, with the
  // smallest micro-batches. Where none of these fits into memory, no other does.
  void look_at_leanest(int count) {
    if (counts_.empty()) return;
    const int batch = job_.model.global_batch;
    for (const int tp : coefficients_.tp_degrees) {
      if (bounds_.fixed_tp > 0 && tp != bounds_.fixed_tp) continue;
      for (int pp = 1; pp <= std::min(job_.model.layers, count / tp); ++pp) {
        if (bounds_.fixed_pp > 0 && pp != bounds_.fixed_pp) continue;
        const int most = std::min(count / tp / pp, batch / counts_.front());
        int share = std::numeric_limits<int>::max();
        for (int dp = most; dp >= 1 && pp * dp * tp >= bounds_.min_gpus && share > 1; --dp) {
          if (bounds_.fixed_dp > 0 && dp != bounds_.fixed_dp) continue;
          const int used = pp * dp * tp;
          const auto past = std::upper_bound(counts_.begin(), counts_.end(), batch / dp);
          if (past == counts_.begin()) continue;
          const int largest = (batch / *std::prev(past) + dp - 1) / dp;
          if (largest >= share || !groups(gpus_, used, tp)) continue;
          share = largest;
          const std::vector<GpuId> gpus(gpus_.begin(), gpus_.begin() + used);
          const PipelineForm form = chooses_schedule(job_) ? forms_of(job_).front() : PipelineForm{};
          weighed_.weigh(
              in_its_form(uniform_plan(pp, dp, job_.model.layers, batch, *std::prev(past), gpus, tp), form, job_));
        }
      }
    }
  }

  // Lists of operations take long to generate and simulate, and espalierd plans on its loop. Beyond this many
  // operations the solver weighs the other schedules, without lists. No time limit: launcher and planner find the same.
  std::int64_t operations_left_ = 3'000'000;
  bool affordable(PipelineForm form, int stages, int micro_batches) {
    if (form.plain() || stages < 2) return true;
    const std::int64_t list = std::int64_t{3} * stages * form.chunks * std::min(micro_batches, 7 * stages);
    const std::int64_t cost = list * (form.v_shaped() ? 8 : 3);  // a V compares several lists
    if (cost > operations_left_ && !weighed_.none_fits()) return false;
    operations_left_ -= cost;
    return true;
  }

  void look_at_micro_batches(int pp, int dp, int tp, int used) {
    const std::vector<GpuId> gpus(gpus_.begin(), gpus_.begin() + used);
    for (const int count : counts_) {
      if (count > job_.model.global_batch / dp) continue;
      const Plan plan = uniform_plan(pp, dp, job_.model.layers, job_.model.global_batch, count, gpus, tp);
      if (!chooses_schedule(job_)) {
        if (const auto forms = forms_of(job_); !forms.empty() && !affordable(forms.front(), pp, count)) continue;
        weighed_.weigh(in_its_form(plan, {}, job_));
        continue;
      }
      for (const PipelineForm& form : forms_of(job_)) {
        if (affordable(form, pp, count)) weighed_.weigh(with_form(plan, form));
        // One stage: all are alike. Many GPUs: the solver weighs the other schedules, without their lists.
        if (pp == 1 || gpus_.size() > kMany) break;
      }
    }
  }

  void look_at_solver() {
    const auto held = held_gpus(held_by(job_, site_));
    const Problem problem{site_.hardware, site_.topology, coefficients_, bounds_, forms_of(job_)};
    Evaluator evaluator(problem);
    const auto solution = best_plan(evaluator, pieces_of(held, site_), {}, kEffort);
    if (!solution) return;
    auto plan = materialize(problem, solution->sketch, without_plan(job_), held);
    if (!plan || plan->ranks().front() != gpus_.front()) return;
    if (order_ == RankOrder::planned) return weighed_.weigh(*plan);
    if (static_cast<std::size_t>(plan->gpu_count()) != gpus_.size()) return;
    if (const auto same = on_gpus(*plan, gpus_)) weighed_.weigh(*same);
  }

  std::string why_none() const {
    const std::string start = "no plan on " + std::to_string(gpus_.size()) + " GPU(s): ";
    if (const std::string why = weighed_.why_too_large(); !why.empty()) return start + why;
    char text[240];
    std::snprintf(text, sizeof text,
                  "pp=%d dp=%d tp=%d micro_batches=%d of [parallel] (0: free) do not divide %d layers, a global "
                  "batch of %d and %d heads among them; change [parallel] or the number of GPUs",
                  bounds_.fixed_pp, bounds_.fixed_dp, bounds_.fixed_tp, bounds_.fixed_micro_batches, job_.model.layers,
                  job_.model.global_batch, job_.model.heads);
    return start + text;
  }

  const ElasticJob& job_;
  const Site& site_;
  const JobCoefficients coefficients_;
  PlanBounds bounds_;
  const RankOrder order_;
  const std::vector<GpuId> gpus_;
  std::vector<int> counts_;  // N_b to weigh in uniform plans
  WeighedPlans weighed_{job_, site_, coefficients_};
};

}  // namespace

FirstPlan first_plan(const ElasticJob& job, const Site& site, const JobCoefficients& coefficients, RankOrder order) {
  return FirstSearch(job, site, coefficients, order).solve();
}

}  // namespace espalier
