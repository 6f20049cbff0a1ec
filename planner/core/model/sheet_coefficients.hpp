// Coefficients before anything was measured: sizes from the model's shape, times from the data
// sheets of the GPUs.
#pragma once

#include "planner/core/model/hardware.hpp"
#include "planner/core/model/model_sizes.hpp"

namespace espalier {

// Share of a GPU's TFLOPS that computation reaches. Mean of published training runs: 0.3 to 0.55
// (PaLM 2022, Tab. 3; Megatron-LM 2021, Tab. 1).
inline constexpr double kSheetUtilization = 0.45;

// Times follow from FLOPs and memory traffic. The backward pass takes twice the forward pass. Half of the gradient
// synchronization overlaps, or nearly all of it where units are summed one by one. All values are marked as assumed.
// Throws Error as model_sizes().
JobCoefficients sheet_coefficients(const ModelShape& shape, const Training& training, const Hardware& hardware,
                                   double utilization = kSheetUtilization);

}  // namespace espalier
