// The reduced inversion: coefficients from a job's iteration times alone, without a profile of the
// parts.
#pragma once

#include <memory>

#include "planner/core/model/model_sizes.hpp"
#include "planner/core/model/placed_plan.hpp"

namespace espalier {

// ms of one iteration; 0: not measured.
struct IterationTimes {
  double iteration = 0;
  // From the first forward to the last backward pass of all micro-batches.
  double forward_backward = 0;
  double optimizer = 0;
};

// Adds times to `sizes` such that the model reproduces `measured` for `plan`. Assumes forward 1 :
// backward 2.
//   optimizer         determines k_optim. Not measured: Adam's traffic at the type's memory
//                     bandwidth, or 0 if that is unknown.
//   forward_backward  determines k_comp. Not measured: the iteration determines k_comp.
//   iteration         determines k_overlap if the gradients have less time left than they need. If
//                     more time is left than the model explains, the timer missed computation
//                     (launched, not waited for), and k_comp is determined again.
// Types scale by roofline.hpp, the optimizer by memory bandwidth; both by tflops alone unless all
// bandwidths are known. Values without a measurement stay marked as assumed. So do all values of
// types that the plan does not use. Throws Error when `measured.iteration` is not positive.
JobCoefficients calibrate_iteration(const Hardware& hardware, JobCoefficients sizes, const PlacedPlan& plan,
                                    const IterationTimes& measured);

// The planner's coefficients before a profile arrives, from the model's shape and the step time
// alone. `own_lists`: the job's, which its plan may run; they are not part of the result. Throws the Errors of
// model_sizes(), place_plan() and calibrate_iteration().
JobCoefficients assumed_coefficients(const Hardware& hardware, const Topology& topology, const ModelShape& shape,
                                     const Training& training, const Plan& plan, double step_ms,
                                     std::shared_ptr<const OwnLists> own_lists = {});

}  // namespace espalier
