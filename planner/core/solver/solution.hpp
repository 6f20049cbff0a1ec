// The result of every solver.
#pragma once

#include "planner/core/solver/sketch.hpp"

namespace espalier {

struct Solution {
  PlanSketch sketch;
  double ms = 0;  // printed iteration time (App. A.2)
};

}  // namespace espalier
