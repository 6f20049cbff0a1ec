// Marginal benefit and its threshold (Suika §3.2.3).
#pragma once

#include <span>

#include "planner/core/model/hardware.hpp"
#include "planner/core/solver/sketch.hpp"

namespace espalier {

// |.|: the size of an allocation. It is the number of GPUs, weighted by their types' TFLOPS
// relative to the fastest type's.
double allocation_size(const Hardware& hardware, std::span<const Piece> pieces);

// B = (|R0| / |d|) (T(R0 + d) / T(R0) - 1), where T is the throughput. 1 is linear scaling. 0 if
// |d| = 0.
double marginal_benefit(double present_size, double added_size, double present_ms, double next_ms);

// tau = U^lambda. U is the basic demands of all running jobs over all GPUs, 0..1. lambda 0 admits
// only linear scaling; a larger lambda admits more.
double benefit_threshold(double intensity, double lambda);

}  // namespace espalier
