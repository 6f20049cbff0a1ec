// The kinds of jobs in a simulation: models with the 3D plans of their submission (Suika Tab. 1).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/cluster.hpp"
#include "planner/core/job.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/topology/site.hpp"
#include "planner/sim/speed_table.hpp"

namespace espalier::sim {

enum class JobSize { S, M, L, XL };

// A kind's basic plan on GPUs of one type.
struct BasicPlan {
  int type = 0;          // index into Hardware::types
  std::string gpu_type;  // its name
  int pp = 1, dp = 1, tp = 1, micro_batches = 1;
  double step_seconds = 0;  // true step time on an empty cluster
};

struct JobKind {
  std::string model;  // for people
  JobSize size = JobSize::S;
  int pp = 1, dp = 1, tp = 1;  // the plan of the submission
  int micro_batches = 1;       // N_b of that plan: the fastest that fits
  ModelShape shape;            // includes global_batch
  // The true coefficients, for the site for which they were made.
  JobCoefficients coefficients;
  double step_seconds = 0;  // the least of `on`
  // Limits for the planner's own policies, as `srun --elastic` gives them.
  int max_gpus = 0;  // 0: no limit
  Accuracy accuracy = Accuracy::relaxed;
  // The basic plan by GPU type, the fastest first; types on which it cannot run are absent. On most
  // types it is the plan of the submission. Where that does not fit, it is the fastest symmetric plan
  // of as many GPUs.
  std::vector<BasicPlan> on = {};
  // Measured times. They replace the coefficients; plans then say only which GPUs the job has. Null:
  // none.
  std::shared_ptr<const SpeedTable> measured = nullptr;
  int gpus() const { return pp * dp * tp; }
  const BasicPlan* on_type(int type) const;  // nullptr: it cannot run there
  const BasicPlan* on_type(const std::string& gpu_type) const;
};

// The kind's basic plan on these GPUs, which have type `gpu_type`; empty: the plan of the submission.
// There must be gpus() of them, and GPUs of one node must stand together. Throws Error when a replica
// would span nodes.
Plan basic_plan(const JobKind& kind, const std::vector<GpuId>& gpus, const std::string& gpu_type = {});

// `kind` with `on`, micro_batches and step_seconds filled in. nullopt: the cluster has no place for
// it even when empty. Throws Error when on no type a number of micro-batches fits into memory, or the
// model cannot be split in this way.
std::optional<JobKind> tuned(JobKind kind, const Site& site, const ClusterView& cluster);

// `kind` with `on` and step_seconds filled in and its micro_batches unchanged. nullopt and Error as
// for tuned().
std::optional<JobKind> timed(JobKind kind, const Site& site, const ClusterView& cluster);

// The jobs of Suika Tab. 1 that the cluster can hold, largest models last. A job whose plan fits on no
// GPU type has the fastest symmetric plan of as many GPUs, and is left out where there is none. `notes`
// then gets a line about it; may be null. Throws Error when memory leaves no job at all.
std::vector<JobKind> paper_kinds(const Site& site, const ClusterView& cluster,
                                 std::vector<std::string>* notes = nullptr);

}  // namespace espalier::sim
