// The jobs of Suika Tab. 1 with their default 3D plans.
#pragma once

#include <span>
#include <string>

#include "planner/sim/job_kind.hpp"

namespace espalier::sim {

struct PaperJob {
  const char* model;  // as published_model knows it
  JobSize size;
  int pp, dp, tp;  // the plan that it is submitted with
  int gpus() const { return pp * dp * tp; }
};

std::span<const PaperJob> paper_jobs();
// By model name, case and punctuation aside ("llama2-13b"). Throws Error that lists them.
const PaperJob& paper_job(const std::string& model);

// What nobody has measured of a job.
struct Assumed {
  double utilization = 0.45;  // of the GPUs' peak that its computation reaches
  bool recompute = true, zero1 = false;
};

// BF16 with FP32 Adam state (mixed precision as in Megatron), half of the gradient synchronization hidden (k_overlap
// 2).
JobCoefficients assumed_coefficients(const ModelShape& shape, const Assumed& assumed, const Hardware& hardware);

// 45% model FLOPs utilization. All recompute activations, XL shards the optimizer (ZeRO-1): without, their default
// plans do not fit into 80 GB.
JobCoefficients paper_coefficients(const PaperJob& job, int global_batch, const Hardware& hardware);

// The samples of an iteration that a job of its size uses: 256, XL 512.
int paper_batch(const PaperJob& job);

ModelShape paper_shape(const PaperJob& job);

}  // namespace espalier::sim
