// Improves an order by small changes along its critical path. Pure.
#pragma once

#include <cstdint>

#include "planner/core/pipeline/graph.hpp"
#include "planner/core/pipeline/order.hpp"

namespace espalier::pipeline {

// splitmix64: the same numbers on every machine.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  int below(int count) { return static_cast<int>(next() % static_cast<std::uint64_t>(count)); }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // in [0, 1)

 private:
  std::uint64_t state_;
};

// Simulated annealing. A change moves a step of the critical path to another place on its rank, or takes a B apart, or
// puts I and W together. Each order fits into the memory. `order` must be sound and fit; it becomes the best one that
// was seen. Ends when `work` steps (SearchOptions) are used up, which it counts down, or when the time is `enough`.
// Returns the time.
double improve(const SearchProblem& problem, Graph& graph, Order& order, Chance& chance, std::int64_t& work,
               double enough);

}  // namespace espalier::pipeline
