#include "planner/sim/job_kind.hpp"

#include "planner/core/error.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/sim/free_gpus.hpp"
#include "planner/sim/paper_jobs.hpp"

namespace espalier::sim {

Plan basic_plan(const JobKind& kind, const std::vector<GpuId>& gpus) {
  Plan plan =
      uniform_plan(kind.pp, kind.dp, kind.shape.layers, kind.shape.global_batch, kind.micro_batches, gpus, kind.tp);
  return plan;
}

std::optional<JobKind> tuned(JobKind kind, const Site& site, const ClusterView& cluster) {
  FreeGpus all(cluster);
  const auto gpus = all.take(kind.gpus());
  if (!gpus) return std::nullopt;
  std::string why;
  int best = 0;
  for (int n = 1; n <= kind.shape.global_batch / kind.dp; ++n) {
    if (kind.shape.global_batch % n != 0 || kind.shape.global_batch / n % kind.dp != 0) continue;
    kind.micro_batches = n;
    const Prediction prediction =
        evaluate_plan(site.hardware, site.topology, kind.coefficients, basic_plan(kind, *gpus));
    if (!prediction.feasible) {
      why = prediction.why_not;
      continue;
    }
    if (best > 0 && prediction.exact_ms >= kind.step_seconds * 1000) continue;
    best = n;
    kind.step_seconds = prediction.exact_ms / 1000;
  }
  if (best == 0)
    throw Error(kind.model + ": its plan pp" + std::to_string(kind.pp) + " dp" + std::to_string(kind.dp) + " tp" +
                std::to_string(kind.tp) + " does not fit: " + (why.empty() ? "no micro-batch feeds it" : why) +
                "; give it another plan");
  kind.micro_batches = best;
  return kind;
}

std::optional<JobKind> timed(JobKind kind, const Site& site, const ClusterView& cluster) {
  FreeGpus all(cluster);
  const auto gpus = all.take(kind.gpus());
  if (!gpus) return std::nullopt;
  const Prediction prediction = evaluate_plan(site.hardware, site.topology, kind.coefficients, basic_plan(kind, *gpus));
  if (!prediction.feasible) throw Error(kind.model + ": its plan cannot be: " + prediction.why_not);
  kind.step_seconds = prediction.exact_ms / 1000;
  return kind;
}

std::vector<JobKind> paper_kinds(const Site& site, const ClusterView& cluster) {
  std::vector<JobKind> kinds;
  for (const PaperJob& job : paper_jobs()) {
    JobKind kind{job.model, job.size, job.pp, job.dp, job.tp, 1, paper_shape(job), {}, 0, 0, Accuracy::relaxed};
    kind.coefficients = paper_coefficients(job, paper_batch(job), site.hardware);
    if (auto made = tuned(std::move(kind), site, cluster)) kinds.push_back(std::move(*made));
  }
  return kinds;
}

}  // namespace espalier::sim
