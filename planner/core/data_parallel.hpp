// Programs that are data-parallel only, and whose model the planner does not know: plain PyTorch with DDP, for example.
// Their jobs are planned like all others, as a model of one layer. What that layer costs is measured, never estimated.
#pragma once

#include <string>

#include "planner/core/model_shape.hpp"
#include "planner/core/parallel_limits.hpp"

namespace espalier {

struct ElasticJob;

// The family of such a model (ModelShape::family).
inline constexpr const char* kDataFamily = "data";

// The model: one layer, and one micro-batch, so that a plan's shares are the samples that each replica computes in a
// step. `unit`: GPUs of a replica, on one node. `program`: the same text for jobs with the same model and code; empty:
// not told.
ModelShape data_parallel_shape(int global_batch, int unit, const std::string& program);

// One stage, TP degree `unit`.
ParallelLimits data_parallel_limits(int unit);

bool data_parallel_only(const ElasticJob& job);

}  // namespace espalier
