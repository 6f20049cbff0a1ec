// The reduced inversion: what little a job's iteration times say, without a profile of its parts.
#pragma once

#include "planner/core/model/model_sizes.hpp"
#include "planner/core/model/placed_plan.hpp"

namespace espalier {

// ms of one iteration; 0: not measured.
struct IterationTimes {
  double iteration = 0;
  double forward_backward = 0;  // from the first forward to the last backward, of all micro-batches
  double optimizer = 0;
};

// Times added to `sizes` so that the model gives back what `measured` says of `plan`; forward 1 : backward 2 is
// assumed.
//   optimizer        k_optim; not measured: Adam's traffic at the type's memory bandwidth, 0 where that is unknown
//   forward_backward k_comp; not measured: the iteration is all there is
//   iteration        k_overlap, where less is left for the gradients than they take. Where more is left than the model
//                    can explain it is computation that the timer did not see (launched, not waited for): k_comp again.
// Types scale as in A.4.2: computation by tflops, the optimizer by memory bandwidth where all are known. What nothing
// was measured for stays marked as assumed; so does every type that the plan does not use.
// Throws Error when `measured.iteration` is not positive.
JobCoefficients calibrate_iteration(const Hardware& hardware, JobCoefficients sizes, const PlacedPlan& plan,
                                    const IterationTimes& measured);

// What the planner uses before a profile arrives: shape and step time only. Throws Error as model_sizes(), place_plan()
// and calibrate_iteration() do.
JobCoefficients assumed_coefficients(const Hardware& hardware, const Topology& topology, const ModelShape& shape,
                                     const Training& training, const Plan& plan, double step_ms);

}  // namespace espalier
