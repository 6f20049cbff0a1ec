// The kinds of jobs in a simulation: models with the 3D plans of their submission (Suika Tab. 1).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/cluster.hpp"
#include "planner/core/job.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier::sim {

enum class JobSize { S, M, L, XL };

struct JobKind {
  std::string model;  // for people
  JobSize size = JobSize::S;
  int pp = 1, dp = 1, tp = 1;  // the plan of the submission
  int micro_batches = 1;       // N_b of that plan: the fastest that fits
  ModelShape shape;            // includes global_batch
  // The true coefficients, for the site for which they were made.
  JobCoefficients coefficients;
  double step_seconds = 0;  // true step time of the basic plan on an empty cluster
  // Limits for the planner's own policies, as `srun --elastic` gives them.
  int max_gpus = 0;  // 0: no limit
  Accuracy accuracy = Accuracy::relaxed;
  int gpus() const { return pp * dp * tp; }
};

// The kind's basic plan on these GPUs. There must be gpus() of them, and GPUs of one node must
// stand together. Throws Error when a replica would span nodes.
Plan basic_plan(const JobKind& kind, const std::vector<GpuId>& gpus);

// `kind` with micro_batches and step_seconds filled in. nullopt: the cluster has no place for it
// even when empty. Throws Error when no number of micro-batches fits into memory, or the model
// cannot be split in this way.
std::optional<JobKind> tuned(JobKind kind, const Site& site, const ClusterView& cluster);

// `kind` with step_seconds filled in and its micro_batches unchanged. nullopt and Error as for
// tuned().
std::optional<JobKind> timed(JobKind kind, const Site& site, const ClusterView& cluster);

// The jobs of Suika Tab. 1 that the cluster can hold, largest models last.
std::vector<JobKind> paper_kinds(const Site& site, const ClusterView& cluster);

}  // namespace espalier::sim
