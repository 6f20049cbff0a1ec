#include "planner/core/pipeline/generators/generators.hpp"
#include "planner/core/pipeline/placement.hpp"

namespace espalier::pipeline {

Schedule memory_minimised(const Shape& shape) {
  Schedule schedule{shape.micro_batches, looped_placement(shape.ranks, shape.chunks_per_rank), {}};
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& list = schedule.actions.emplace_back();
    for (int m = 0; m < shape.micro_batches; ++m) {
      for (int round = 0; round < shape.chunks_per_rank; ++round)
        list.push_back({Compute::forward, rank + round * shape.ranks, m});
      for (int round = shape.chunks_per_rank - 1; round >= 0; --round)
        list.push_back({Compute::backward, rank + round * shape.ranks, m});
    }
  }
  return schedule;
}

}  // namespace espalier::pipeline
