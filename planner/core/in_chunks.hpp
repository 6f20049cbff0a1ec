// Cuts the stages of a plan into chunks. Pure.
#pragma once

#include "planner/core/parallel_limits.hpp"

namespace espalier {

// The plan with `limits.chunks` chunks on each stage. The chunks go round the stages, or as a V; see ParallelLimits.
// Each stage keeps its layers and cuts them as evenly as integers allow; the model's first and last chunk take the
// fewer ones, because of the embedding and the head. Where some stage has too few layers, all stages get fewer chunks,
// down to one: such a plan is returned as it came. A plan that has chunks, or is invalid, is returned as it came.
Plan in_chunks(Plan plan, const ParallelLimits& limits);

}  // namespace espalier
