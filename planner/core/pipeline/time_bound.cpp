#include "planner/core/pipeline/time_bound.hpp"

#include <algorithm>

namespace espalier::pipeline {

double time_bound(const SearchProblem& problem) {
  const auto ranks = static_cast<std::size_t>(problem.ranks);
  std::vector<double> work(ranks), arrival(ranks, -1);
  double way = 0;
  const auto chunks = problem.rank_of_chunk.size();
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    const ChunkCosts& cost = problem.costs[chunk];
    const auto rank = static_cast<std::size_t>(problem.rank_of_chunk[chunk]);
    if (arrival[rank] < 0) arrival[rank] = way;
    way += cost.forward;
    if (chunk + 1 < chunks && problem.rank_of_chunk[chunk + 1] != problem.rank_of_chunk[chunk])
      way += cost.send_forward;
    work[rank] += cost.forward + std::min(cost.backward, cost.backward_input + cost.backward_weight);
  }
  double bound = 0;
  for (std::size_t chunk = chunks; chunk-- > 0;) {
    const ChunkCosts& cost = problem.costs[chunk];
    const double input = std::min(cost.backward, cost.backward_input);
    bound = std::max(bound, way + std::min(cost.backward, cost.backward_input + cost.backward_weight));
    way += input;
    if (chunk > 0 && problem.rank_of_chunk[chunk - 1] != problem.rank_of_chunk[chunk]) way += cost.send_backward;
  }
  for (std::size_t rank = 0; rank < ranks; ++rank)
    bound = std::max(bound, std::max(0.0, arrival[rank]) + problem.micro_batches * work[rank]);
  return bound * (1 + 1e-12);
}

}  // namespace espalier::pipeline
