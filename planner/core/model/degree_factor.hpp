// How the computation of a replica depends on its TP degree beyond being divided by it. Of programs whose inside the
// planner does not know (data_parallel.hpp), the degrees at which they ran tell it. Of models of known families a layer
// that was measured alone does (layer_times.hpp): every rank repeats norms, and small products use a device badly.
// Pure.
#pragma once

#include "planner/core/model/coefficients.hpp"

namespace espalier {

// A replica of `tp` GPUs computes for k_comp * share / tp * this factor. It is 1 where nothing was measured of a model
// of a known family. A measured degree has the factor measured. Between two measured degrees it is interpolated over
// log(tp). Above the largest it is that one's times 1.25, since a finer division has costs of its own. Below the
// smallest it is that one's times 1.01.
double degree_factor(const JobCoefficients& job, int tp);

// The smallest one of the degrees that `job` allows. 1: there is none.
double least_degree_factor(const JobCoefficients& job);

// A layer's computation on one of `tp` GPUs for `share` samples of a micro-batch, in multiples of k_comp.
double samples_of_work(const JobCoefficients& job, int share, int tp);

bool degree_is_measured(const JobCoefficients& job, int tp);

// Gives every degree that `job` allows a factor of its own. One that was not measured gets the worst of its range:
// 1.2 times degree_factor() above or between measured degrees, else degree_factor().
void count_unmeasured_degrees_as_worst(JobCoefficients& job);

// The same coefficients with k_comp told for replicas of `tp` GPUs: degree_factor(tp) is 1 then. Unchanged where `tp`
// is 0 or the family's degrees need no factors.
JobCoefficients told_for_degree(JobCoefficients job, int tp);

// `fresh` has measured one degree. It also gets the degrees that only `known` has measured. Their factors are such that
// a replica of them takes as long as `known` says, but for factors beyond a million, which a user's wrong figures give.
void add_known_degrees(JobCoefficients known, JobCoefficients& fresh);

// The degree for which k_comp is told, which is the one with the factor 1. 0: the family's degrees need no factors.
int told_degree(const JobCoefficients& job);

}  // namespace espalier
