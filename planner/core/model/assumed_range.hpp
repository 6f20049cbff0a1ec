// What a job's coefficients were measured for and what is only assumed, and the ranges within which
// the assumed ones lie. espalier(1) lists the ranges. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/core/model/coefficients.hpp"
#include "planner/core/model/hardware.hpp"

namespace espalier {

struct CoefficientState {
  std::string name;  // "computation.h100", "boundary"
  bool measured = false;
};

// Of every coefficient that may be assumed; those of GPU types for every type of `hardware`.
std::vector<CoefficientState> coefficient_states(const JobCoefficients& job, const Hardware& hardware);

// Whether anything is assumed that decides the gain of a plan on GPUs of these types (by index).
// Memory does not: it decides whether the plan fits.
bool gain_is_assumed(const JobCoefficients& job, const std::vector<bool>& types);

// The coefficients with every assumed one at the end of its range at which more GPUs bring least.
// What was measured stays, and so does the computation of one whole iteration:
// - computation of a type that was not measured while another was: 1.5 times what the ratio of
//   TFLOPS says;
// - optimizer: 5% of the computation, where that is more than assumed;
// - overlap: none;
// - boundary: twice the activations of the model's shape;
// - first edge: half a layer; last edge: 1.5 times the formula's share;
// - gradients, where nothing was measured: twice the bytes;
// - replicas of a size that was not measured: degree_factor.hpp.
// The backward pass (assumed twice forward, 1 to 3 times) keeps its value: the gain hardly depends
// on how the whole is divided.
JobCoefficients worst_of_assumed(const JobCoefficients& job);

// The coefficients with every assumed one at the end of its range at which an iteration is shortest, for bounds of what
// any plan can reach (least_time.hpp). What was measured stays.
// - computation of a type, and of replicas of a size that was not measured: 1.5 times as fast;
// - backward pass: as long as the forward pass; where no type's was measured, the stage before waits for none of it;
// - optimizer, and the computation of both edges: none;
// - overlap: complete;
// - boundary: no bytes.
JobCoefficients fastest_of_assumed(JobCoefficients job);

// For coefficients that are true by definition, as in a simulation.
void count_as_measured(JobCoefficients& job);

}  // namespace espalier
