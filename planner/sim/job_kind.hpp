// The kinds of jobs that a simulation knows: models with the 3D plans they are submitted with (Suika Tab. 1).
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
  int pp = 1, dp = 1, tp = 1;    // the plan that it is submitted with
  int micro_batches = 1;         // N_b of that plan: the fastest that fits
  ModelShape shape;              // global_batch included
  JobCoefficients coefficients;  // true ones, for the site they were made for
  double step_seconds = 0;       // true, of the basic plan on an empty cluster
  // To the planner's own policies, as `srun --elastic` gives them.
  int max_gpus = 0;  // 0: as many as there are
  Accuracy accuracy = Accuracy::relaxed;
  int gpus() const { return pp * dp * tp; }
};

// The kind's basic plan on these GPUs: gpus() of them, those of a node together. Throws Error where a replica would
// span nodes.
Plan basic_plan(const JobKind& kind, const std::vector<GpuId>& gpus);

// `kind` with micro_batches and step_seconds filled in. nullopt: the cluster, all of it empty, has no place for it.
// Throws Error when no micro-batch fits into memory, or the model cannot be cut so.
std::optional<JobKind> tuned(JobKind kind, const Site& site, const ClusterView& cluster);

// `kind` with step_seconds filled in, its micro_batches left as they are. nullopt and Error: likewise.
std::optional<JobKind> timed(JobKind kind, const Site& site, const ClusterView& cluster);

// The jobs of Suika Tab. 1 that the cluster can hold, largest models last.
std::vector<JobKind> paper_kinds(const Site& site, const ClusterView& cluster);

}  // namespace espalier::sim
