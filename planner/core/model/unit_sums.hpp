// Gradient sums of a program that sums each unit's gradients as soon as they are complete (JobCoefficients::
// sums_by_unit), and the part of them that the last backward pass does not hide.
//
// Why not k_overlap (Suika A.2): one exponent fits one size of sums. Sums within a node show hardly more than the last
// unit's, which nothing can hide, and the exponent that explains them leaves a third of much longer sums between nodes
// exposed that are hidden in fact.
#pragma once

#include "planner/core/model/stage_rates.hpp"

namespace espalier {

// Milliseconds of one iteration for a stage of `layers` layers. The units' sums share the link. The last unit's sum
// starts first: the head's, then the layers', then the embedding's. On the model's first stage, and with recomputation,
// a unit is complete when its backward pass is; elsewhere the gradients of inputs come before those of parameters, and
// only these hide sums. Several chunks on a stage count as one. Of what could be hidden, 1 / rates.overlap is taken to
// be exposed all the same. `slower`: the link takes so many times what `rates` say. Monotone in `slower`. ZeRO-1's
// gathering is included.
double exposed_unit_sums(const JobCoefficients& job, const StageRates& rates, int layers, bool first, bool last,
                         double slower = 1);

}  // namespace espalier
