// Programs that are data-parallel only, and whose model the planner does not know: plain PyTorch with DDP, for example.
// Their jobs are planned like all others, as a model of one layer. What that layer costs is measured, never estimated.
#pragma once

#include <string>
#include <vector>

#include "planner/core/model_shape.hpp"
#include "planner/core/parallel_limits.hpp"

namespace espalier {

struct ElasticJob;

// The family of such a model (ModelShape::family).
inline constexpr const char* kDataFamily = "data";

// The model: one layer, and one micro-batch, so that a plan's shares are the samples that each replica computes in a
// step. `units`: GPUs that a replica may have, on one node, at least one entry, those that the program likes best
// first; it divides a replica's work among them as it likes. `program`: the same text for jobs with the same model and
// code; empty: not told.
ModelShape data_parallel_shape(int global_batch, const std::vector<int>& units, const std::string& program);

// One stage, whose TP degree is one of `units`.
ParallelLimits data_parallel_limits(const std::vector<int>& units);

// Whether replicas of such a model may have several sizes. Other families have TP degrees.
bool has_several_units(const ModelShape& shape);

// GPUs of the largest replica that the program can run.
int largest_unit(const ParallelLimits& limits);

bool data_parallel_only(const ElasticJob& job);

}  // namespace espalier
