// Shapes of published models by the names in common use.
#pragma once

#include <string>

#include "planner/core/job.hpp"

namespace espalier {

// Accepts names such as "LLaMA-2-7B", "GPT-2-XL(1.5B)", "qwen2 0.5b". Family, generation and size decide.
// global_batch and micro_batches stay 0. Throws Error, listing the known models.
ModelShape published_model(const std::string& name);

}  // namespace espalier
