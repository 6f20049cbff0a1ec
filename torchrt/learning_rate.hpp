// Linear warm-up, then half a cosine down to the minimum. Pure.
#pragma once

#include "torchrt/config.hpp"

namespace espalier::torchrt {

// `step` counts from 1.
double learning_rate(const TrainingConfig& training, std::int64_t step);

}  // namespace espalier::torchrt
