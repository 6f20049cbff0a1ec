// Times of an iteration that no plan can be below by the performance model: the computation of all samples and layers
// and the optimizer, without communication; and one sample's way through all layers. Pure.
#pragma once

#include <vector>

#include "planner/core/model/coefficients.hpp"
#include "planner/core/model/hardware.hpp"

namespace espalier {

// GPU milliseconds that an iteration takes at least, if all of it is on GPUs of this type, at whichever TP degree the
// model allows.
double least_gpu_ms(const JobCoefficients& job, int type);

// Milliseconds that an iteration takes at least on so many GPUs (by type), on any part of them.
double least_step_ms(const JobCoefficients& job, const Hardware& hardware, const std::vector<int>& gpus);
// The same on at most `most` of them. Infinity: on none.
double least_step_ms(const JobCoefficients& job, const Hardware& hardware, std::vector<int> gpus, int most);

}  // namespace espalier
