// How fast the types of GPUs compute, by their data sheets: the roofline model (Williams, Waterman and Patterson 2009),
// by which Arena (§3.2) takes the load of operators. Matrix products are bound by FLOPS. Norms, activation functions,
// residual sums, dropout and the attention's softmax are bound by the bandwidth of the GPU's memory.
#pragma once

#include "planner/core/model/hardware.hpp"

namespace espalier {

// Share of a GPU's TFLOPS that computation reaches where only TFLOPS are known. Mean of published training runs: 0.3 to
// 0.55 (PaLM 2022, Tab. 3; Megatron-LM 2021, Tab. 1).
inline constexpr double kSheetUtilization = 0.45;

// FLOP per ms in a layer that moves `traffic_per_flop` bytes (JobCoefficients) for each FLOP of its matrix products.
double flop_rate(const GpuType& type, double traffic_per_flop);

// Whether the memory bandwidth of every type is known. Where one is not, all types are compared by TFLOPS alone: two
// rules side by side would put the type with the unknown bandwidth too high or too low among the others.
bool bandwidths_known(const Hardware& hardware);

// The traffic by which the types of `hardware` are compared: 0 where a bandwidth is unknown.
double compared_traffic(const Hardware& hardware, double traffic_per_flop);

// How many times as fast as `than` a type computes. By TFLOPS alone where one of the bandwidths is unknown.
double times_as_fast(const GpuType& type, const GpuType& than, double traffic_per_flop);

}  // namespace espalier
