// Shapes of published models by the names that measurements give them.
#pragma once

#include <string>

#include "planner/core/job.hpp"

namespace espalier::bench {

// "LLaMA-2-7B", "GPT-2-XL(1.5B)", "qwen2 0.5b": family and size decide. global_batch and micro_batches stay 0. Throws
// Error that lists the known models.
ModelShape shape_by_name(const std::string& name);

}  // namespace espalier::bench
