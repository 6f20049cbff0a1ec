// The settings of an update. The learning rate warms up linearly, then falls along half a cosine to
// the minimum. Pure.
#pragma once

#include "torchrt/config.hpp"

namespace espalier::torchrt {

// `step` counts from 1.
double learning_rate(const TrainingConfig& training, std::int64_t step);

// A hash of all settings on which an update depends. Two generations with the same hash make the
// same next state from the same state and gradient. A user may change the settings while a job
// runs.
std::int64_t update_settings(const TrainingConfig& training);

}  // namespace espalier::torchrt
