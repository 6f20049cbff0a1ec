// What this program tells the planner of its training.
#pragma once

#include "torchrt/config.hpp"

namespace espalier::torchrt {

// model_shape() with the setting, which is the same on every node. The GPU driver is not: a profile
// tells it.
ModelShape reported_shape(const Config& config);

}  // namespace espalier::torchrt
