// What an update is made with. Linear warm-up, then half a cosine down to the minimum. Pure.
#pragma once

#include "torchrt/config.hpp"

namespace espalier::torchrt {

// `step` counts from 1.
double learning_rate(const TrainingConfig& training, std::int64_t step);

// Of two generations the same: from one state and gradient both make the same next state. A hash of all that it depends
// on, which a user may change while a job runs.
std::int64_t update_settings(const TrainingConfig& training);

}  // namespace espalier::torchrt
