// Shapes of published models by the names that people and measurements give them.
#pragma once

#include <string>

#include "planner/core/job.hpp"

namespace espalier {

// "LLaMA-2-7B", "GPT-2-XL(1.5B)", "qwen2 0.5b": family and size decide. global_batch and micro_batches stay 0. Throws
// Error that lists the known models.
ModelShape published_model(const std::string& name);

}  // namespace espalier
