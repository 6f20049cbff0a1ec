// What a GPU type that no profile has shown takes, by one that a profile has (Suika App. A.4.2, heterogeneous set-up,
// case 2). Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/core/model/coefficients.hpp"
#include "planner/core/model/hardware.hpp"

namespace espalier {

// Fills in each time of `job.gpu` that is marked as assumed, by the first type on which it is not; it stays marked.
// Computation and optimizer are scaled, the overlap is copied. The computation was measured on one type at least. Adds
// a sentence to `remarks` where no type's optimizer was timed.
void scale_to_unseen_types(JobCoefficients& job, const Hardware& hardware, std::vector<std::string>& remarks);

}  // namespace espalier
