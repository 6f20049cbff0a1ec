// The jobs of Suika Tab. 1 with their default 3D plans.
#pragma once

#include <span>
#include <string>

#include "planner/sim/job_kind.hpp"

namespace espalier::sim {

struct PaperJob {
  const char* model;  // name for published_model()
  JobSize size;
  int pp, dp, tp;    // the plan of the submission
  int sequence = 0;  // tokens of a sample; 0: the model's own
  int gpus() const { return pp * dp * tp; }
};

std::span<const PaperJob> paper_jobs();
// Finds a job by model name, ignoring case and punctuation ("llama2-13b"). Throws Error, listing
// the jobs.
const PaperJob& paper_job(const std::string& model);

// Assumptions about a job, in place of measurements.
struct Assumed {
  double utilization =
      0.45;  // share of the first GPU type's peak that its computation reaches; roofline.hpp for others
  bool recompute = true, zero1 = false;
};

// BF16 with FP32 Adam state (mixed precision as in Megatron). k_overlap is 2.
JobCoefficients assumed_coefficients(const ModelShape& shape, const Assumed& assumed, const Hardware& hardware);

// 45% model FLOPs utilization. All jobs recompute activations. XL jobs shard the optimizer
// (ZeRO-1). Otherwise their default plans would not fit into 80 GB.
JobCoefficients paper_coefficients(const PaperJob& job, int global_batch, const Hardware& hardware);

// Samples per iteration for a job of its size: 512 for XL, else 256.
int paper_batch(const PaperJob& job);

ModelShape paper_shape(const PaperJob& job);

}  // namespace espalier::sim
