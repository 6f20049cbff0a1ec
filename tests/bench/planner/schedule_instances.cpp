#include "tests/bench/planner/schedule_instances.hpp"

#include "planner/core/pipeline/placement.hpp"

namespace espalier::bench {

pipeline::SearchProblem schedule_instance(pipeline::Chance& chance) {
  constexpr int kMostComputations = 54;
  const auto between = [&](double low, double high) { return low + (high - low) * chance.unit(); };
  pipeline::SearchProblem problem;
  int each = 0;
  do {
    problem.ranks = 2 + chance.below(3);
    each = 1 + chance.below(2);
    problem.micro_batches = 2 + chance.below(5);
  } while (3 * problem.ranks * each * problem.micro_batches > kMostComputations);
  const bool v = each == 2 && chance.below(2) == 0;
  problem.rank_of_chunk = v ? pipeline::v_placement(problem.ranks) : pipeline::looped_placement(problem.ranks, each);
  const double hop = chance.below(2) == 0 ? 0 : between(0, 1.0 / 3);
  const double freed = chance.below(2) == 0 ? 0 : between(0, 0.5);
  std::vector<double> own(static_cast<std::size_t>(problem.ranks));  // of one micro-batch
  for (const int rank : problem.rank_of_chunk) {
    pipeline::ChunkCosts cost;
    const double size = between(0.6, 1.4);
    cost.forward = size * between(0.8, 1.2);
    cost.backward_input = size * between(0.8, 1.4);
    cost.backward_weight = size * between(0.6, 1.2);
    cost.backward = between(0.85, 1) * (cost.backward_input + cost.backward_weight);
    cost.activation = size;
    cost.freed_by_input = freed * size;
    cost.send_forward = cost.send_backward = hop;
    own[static_cast<std::size_t>(rank)] += cost.activation;
    problem.costs.push_back(cost);
  }
  for (const double one : own) problem.memory.push_back(one * between(1, problem.ranks));
  return problem;
}

}  // namespace espalier::bench
