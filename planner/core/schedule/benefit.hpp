// Marginal benefit and its threshold (Suika §3.2.3).
#pragma once

#include <span>

#include "planner/core/model/hardware.hpp"
#include "planner/core/solver/sketch.hpp"

namespace espalier {

// |.|: the size of an allocation: its GPUs, weighted by the TFLOPS of their types relative to the fastest one's.
double allocation_size(const Hardware& hardware, std::span<const Piece> pieces);

// B = (|R0| / |d|) (T(R0 + d) / T(R0) - 1), with T the throughput: 1 is linear scaling. 0 for |d| = 0.
double marginal_benefit(double present_size, double added_size, double present_ms, double next_ms);

// tau = U^lambda. U: basic demands of all running jobs over all GPUs, 0..1. lambda 0 admits linear scaling only,
// larger values are bolder.
double benefit_threshold(double intensity, double lambda);

}  // namespace espalier
