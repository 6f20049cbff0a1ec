// Measures how near the planner's plans are to the performance model's optimum.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/bench/planner/incremental_plan.hpp"
#include "tests/bench/planner/instances.hpp"

namespace espalier::bench {

// Throughput relative to the best plan on the held and offered GPUs. CPU time of the solvers.
struct Optimality {
  double planner = 0, algorithm1 = 0;
  double planner_ms = 0, optimum_ms = 0;
};

// Throws Error when the exact search gives up.
Optimality measure_optimality(const Instance& instance, Effort effort = Effort::bench);

}  // namespace espalier::bench
