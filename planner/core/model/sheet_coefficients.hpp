// Coefficients before anything was measured: sizes from the model's shape, times from the data
// sheets of the GPUs.
#pragma once

#include "planner/core/model/hardware.hpp"
#include "planner/core/model/model_sizes.hpp"

namespace espalier {

// Times follow from FLOPs and memory traffic (roofline.hpp), of all types from FLOPs alone where a bandwidth is
// unknown; the optimizer then costs nothing. The backward pass takes twice the forward pass. Half of the gradient
// synchronization overlaps, or nearly all of it where units are summed one by one. All values are marked as assumed.
// Throws Error as model_sizes().
JobCoefficients sheet_coefficients(const ModelShape& shape, const Training& training, const Hardware& hardware);

}  // namespace espalier
