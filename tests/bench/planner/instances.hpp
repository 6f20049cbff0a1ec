// Random planning problems of the size of one node group: a job that runs, and GPUs that it is offered.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "planner/core/solver/evaluator.hpp"

namespace espalier::bench {

// At most 8 GPUs held and 8 offered on nodes of 4 or 8 under one or two leaf switches; at most 12 layers; G in 8..64;
// two GPU types in 40%; memory that the held GPUs hardly fit into in 30%. Everything else from the shape of a model.
struct Instance {
  Hardware hardware;
  Topology topology;
  JobCoefficients job;
  PlanBounds bounds;
  std::vector<Piece> held;   // sorted
  std::vector<Piece> units;  // offered: single GPUs, nearest first
  PlanSketch present;        // on all of `held`, feasible

  Problem problem() const { return {hardware, topology, job, bounds}; }
  std::vector<Piece> all() const;  // held and offered, sorted
};

enum class Start {
  best,    // the best plan on the held GPUs
  random,  // any feasible one that uses them all
};

// The same on every machine for the same arguments.
std::unique_ptr<Instance> make_instance(std::uint64_t seed, Start start);

}  // namespace espalier::bench
