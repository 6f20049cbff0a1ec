// Random planning problems of one node group: a running job that is offered GPUs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "planner/core/solver/evaluator.hpp"

namespace espalier::bench {

// At most 8 GPUs held and 8 offered, on nodes of 4 or 8 GPUs under one or two leaf switches. At
// most 12 layers. G is 8 to 64. 40% have two GPU types. In 30% the job hardly fits into the held
// GPUs' memory. The other figures follow from a model's shape.
struct Instance {
  Hardware hardware;
  Topology topology;
  JobCoefficients job;
  PlanBounds bounds;
  std::vector<Piece> held;   // sorted
  std::vector<Piece> units;  // offered, single GPUs, nearest first
  PlanSketch present;        // feasible plan on all of `held`

  Problem problem() const { return {hardware, topology, job, bounds}; }
  std::vector<Piece> all() const;  // held and offered, sorted
};

enum class Start {
  best,    // the best plan on the held GPUs
  random,  // any feasible plan that uses all held GPUs
};

// Gives the same instance for the same arguments on every machine.
std::unique_ptr<Instance> make_instance(std::uint64_t seed, Start start);

// 2, 4, 8 or 16 GPUs of one type, all of them held, on nodes of 2, 4 or 8 GPUs under one or two leaf
// switches. At most 12 layers. In 30% memory is scarce. A job fits on all GPUs.
std::unique_ptr<Instance> make_grid_instance(std::uint64_t seed);

}  // namespace espalier::bench
