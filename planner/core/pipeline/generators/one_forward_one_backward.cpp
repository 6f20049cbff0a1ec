#include <algorithm>

#include "planner/core/pipeline/generators/generators.hpp"
#include "planner/core/pipeline/placement.hpp"

namespace espalier::pipeline {

Schedule one_forward_one_backward(const Shape& shape) {
  Schedule schedule{shape.micro_batches, looped_placement(shape.ranks, 1), {}};
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& list = schedule.actions.emplace_back();
    const int ahead = std::min(shape.ranks - 1 - rank, shape.micro_batches);
    for (int m = 0; m < ahead; ++m) list.push_back({Compute::forward, rank, m});
    for (int m = 0; m < shape.micro_batches; ++m) {
      if (m + ahead < shape.micro_batches) list.push_back({Compute::forward, rank, m + ahead});
      list.push_back({Compute::backward, rank, m});
    }
  }
  return schedule;
}

}  // namespace espalier::pipeline
