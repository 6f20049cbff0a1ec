#include "planner/sim/job_kind.hpp"

#include <algorithm>

#include "planner/core/counted.hpp"
#include "planner/core/error.hpp"
#include "planner/core/grid/gpu_pools.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/sim/free_gpus.hpp"
#include "planner/sim/paper_jobs.hpp"
#include "planner/sim/policies/regular_plan.hpp"

namespace espalier::sim {
namespace {

Plan plan_of(const JobKind& kind, const BasicPlan& at, const std::vector<GpuId>& gpus) {
  return uniform_plan(at.pp, at.dp, kind.shape.layers, kind.shape.global_batch, at.micro_batches, gpus, at.tp);
}

// The plan of the submission on these GPUs with the fastest N_b of `counts`. `why`: why there is none.
std::optional<BasicPlan> submitted(const JobKind& kind, const Site& site, const std::vector<GpuId>& gpus,
                                   const std::vector<int>& counts, std::string& why) {
  BasicPlan at{0, {}, kind.pp, kind.dp, kind.tp, 0, 0};
  std::optional<BasicPlan> best;
  for (const int n : counts) {
    at.micro_batches = n;
    Prediction prediction;
    try {
      prediction = evaluate_plan(site.hardware, site.topology, kind.coefficients, plan_of(kind, at, gpus));
    } catch (const Error& error) {
      why = error.what();
      return std::nullopt;
    }
    if (!prediction.feasible) {
      why = prediction.why_not;
      continue;
    }
    if (best && prediction.exact_ms >= best->step_seconds * 1000) continue;
    best = at;
    best->step_seconds = prediction.exact_ms / 1000;
  }
  return best;
}

// The fastest symmetric plan of as many GPUs.
std::optional<BasicPlan> another(const JobKind& kind, const Site& site, const GpuPool& pool,
                                 const ClusterView& cluster) {
  PlanBounds bounds;
  bounds.equal_shares = true;
  Evaluator evaluator({site.hardware, site.topology, kind.coefficients, bounds});
  const auto pieces = compact_pieces(pool, cluster, site, kind.gpus());
  const auto plan = fastest_even_plan(evaluator, pieces);
  if (!plan) return std::nullopt;
  const auto& stages = plan->sketch.stages;
  const int pp = static_cast<int>(stages.size()), tp = stages.front().tp;
  return BasicPlan{0, {}, pp, kind.gpus() / (pp * tp), tp, plan->sketch.micro_batches, plan->ms / 1000};
}

std::vector<int> micro_batch_counts(const JobKind& kind) {
  std::vector<int> counts;
  for (int n = 1; n <= kind.shape.global_batch / kind.dp; ++n)
    if (kind.shape.global_batch % n == 0 && kind.shape.global_batch / n % kind.dp == 0) counts.push_back(n);
  return counts;
}

std::string degrees(int pp, int dp, int tp) {
  return "pp" + std::to_string(pp) + " dp" + std::to_string(dp) + " tp" + std::to_string(tp);
}

// `replace`: where the plan of the submission does not fit a type, another plan of as many GPUs is taken there.
std::optional<JobKind> on_types(JobKind kind, const Site& site, const ClusterView& cluster,
                                const std::vector<int>& counts, bool replace) {
  std::string why;
  bool room = false;
  const auto pools = gpu_pools(cluster, site);
  for (const GpuPool& pool : pools) {
    const std::string& name = site.hardware.types[static_cast<std::size_t>(pool.type)].name;
    const auto gpus = FreeGpus(cluster).take(kind.gpus(), name);
    if (!gpus) continue;
    room = true;
    auto plan = submitted(kind, site, *gpus, counts, why);
    if (!plan && replace) plan = another(kind, site, pool, cluster);
    if (!plan) continue;
    plan->type = pool.type;
    plan->gpu_type = name;
    kind.on.push_back(*plan);
  }
  if (!room) return std::nullopt;
  if (kind.on.empty())
    throw Error(kind.model + ": its plan " + degrees(kind.pp, kind.dp, kind.tp) +
                " does not fit: " + (why.empty() ? "no micro-batch feeds it" : why) + "; give it another plan");
  std::stable_sort(kind.on.begin(), kind.on.end(),
                   [](const BasicPlan& a, const BasicPlan& b) { return a.step_seconds < b.step_seconds; });
  kind.micro_batches = kind.on.front().micro_batches;
  kind.step_seconds = kind.on.front().step_seconds;
  return kind;
}

}  // namespace

const BasicPlan* JobKind::on_type(int type) const {
  const auto found = std::find_if(on.begin(), on.end(), [type](const BasicPlan& at) { return at.type == type; });
  return found != on.end() ? &*found : nullptr;
}

const BasicPlan* JobKind::on_type(const std::string& gpu_type) const {
  const auto found = std::find_if(on.begin(), on.end(), [&](const BasicPlan& at) { return at.gpu_type == gpu_type; });
  return found != on.end() ? &*found : nullptr;
}

Plan basic_plan(const JobKind& kind, const std::vector<GpuId>& gpus, const std::string& gpu_type) {
  const BasicPlan* at = kind.on_type(gpu_type);
  return plan_of(kind, at != nullptr ? *at : BasicPlan{0, {}, kind.pp, kind.dp, kind.tp, kind.micro_batches, 0}, gpus);
}

std::optional<JobKind> tuned(JobKind kind, const Site& site, const ClusterView& cluster) {
  const auto counts = micro_batch_counts(kind);
  return on_types(std::move(kind), site, cluster, counts, gpu_pools(cluster, site).size() > 1);
}

std::optional<JobKind> timed(JobKind kind, const Site& site, const ClusterView& cluster) {
  const std::vector<int> only{kind.micro_batches};
  return on_types(std::move(kind), site, cluster, only, gpu_pools(cluster, site).size() > 1);
}

std::vector<JobKind> paper_kinds(const Site& site, const ClusterView& cluster, std::vector<std::string>* notes) {
  std::vector<JobKind> kinds;
  std::string first_problem;
  const auto note = [notes](const std::string& text) {
    if (notes != nullptr) notes->push_back(text);
  };
  for (const PaperJob& job : paper_jobs()) {
    JobKind kind{job.model, job.size, job.pp, job.dp, job.tp, 1, paper_shape(job), {}, 0, 0, Accuracy::relaxed};
    kind.coefficients = paper_coefficients(job, paper_batch(job), site.hardware);
    const auto counts = micro_batch_counts(kind);
    try {
      auto made = on_types(std::move(kind), site, cluster, counts, true);
      if (!made) continue;
      const bool as_submitted = std::any_of(made->on.begin(), made->on.end(), [&](const BasicPlan& at) {
        return at.pp == job.pp && at.dp == job.dp && at.tp == job.tp;
      });
      if (!as_submitted) {
        const BasicPlan& at = made->on.front();
        made->pp = at.pp, made->dp = at.dp, made->tp = at.tp;
        note(made->model + ": " + degrees(job.pp, job.dp, job.tp) + ", the paper's plan, does not fit; it has " +
             degrees(at.pp, at.dp, at.tp));
      }
      kinds.push_back(std::move(*made));
    } catch (const Error& error) {
      if (first_problem.empty()) first_problem = error.what();
      note(std::string(job.model) + ": left out; no plan of its " + counted(job.gpus(), "GPU") + " fits");
    }
  }
  if (kinds.empty() && !first_problem.empty()) throw Error(first_problem);
  return kinds;
}

}  // namespace espalier::sim
