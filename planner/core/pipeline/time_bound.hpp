// A time that no schedule undercuts. Pure.
#pragma once

#include "planner/core/pipeline/search.hpp"

namespace espalier::pipeline {

// Of every rank: the way of the first micro-batch to it, then all its work. Of one micro-batch: all its way. Memory is
// not looked at.
double time_bound(const SearchProblem& problem);

}  // namespace espalier::pipeline
