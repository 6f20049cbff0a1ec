// Describes a sketch for people: "pp2 dp1-2 tp2 | 10+12 layers | n1:4 n2:2+4". Of n2 two GPUs are of one island and
// four of another, or of none.
#pragma once

#include <string>

#include "planner/core/solver/sketch.hpp"

namespace espalier {

std::string describe_sketch(const PlanSketch& sketch, const Topology& topology);

}  // namespace espalier
