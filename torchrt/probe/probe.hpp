// Measures this world's GPUs and links, for `espalier calibrate`. One rank per GPU.
#pragma once

#include "planner/core/probe/request.hpp"
#include "torchrt/comm/world.hpp"

namespace espalier::torchrt {

// Collective. Rank 0 prints the lines of planner/core/probe/report.hpp. Returns the exit code.
// Throws Error on the rank that has one; the caller then takes all ranks down.
int run_probe(const ProbeRequest& request, World& world);

}  // namespace espalier::torchrt
