// Random problems for the solvers, and a search through all plans. The search shares only the
// performance model with the solvers.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "planner/core/solver/solution.hpp"

namespace espalier::test {

// A problem with few GPUs and layers. Types, kinds, switches, edges, memory limits, ZeRO-1,
// recomputation and bounds are random.
struct TinyCase {
  Hardware hardware;
  Topology topology;
  JobCoefficients job;
  PlanBounds bounds;
  std::vector<Piece> available;
  Problem problem() const { return {hardware, topology, job, bounds}; }
};
TinyCase tiny_case(std::mt19937& random, int most_gpus = 6, int most_layers = 5);

// The least printed iteration time of all plans, or infinity.
double best_of_all(const Problem& problem, const std::vector<Piece>& available);

// One sentence about the plan's fault, or nothing.
std::string fault(const Problem& problem, const std::vector<Piece>& available, const PlanSketch& plan);

// Printed iteration time from the model's own functions, without an Evaluator. Infinity: the plan
// is not allowed.
double plain_time(const Problem& problem, const PlanSketch& plan);

}  // namespace espalier::test
