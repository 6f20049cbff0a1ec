#include "planner/core/pipeline/generators/building_block.hpp"
#include "planner/core/pipeline/generators/generators.hpp"

namespace espalier::pipeline {

Schedule v_min(const Shape& shape) {
  // Every pass goes on to the next rank at once: no block keeps less.
  for (int limit = 1;; ++limit)
    if (const auto block = shortest_block(1, 1, shape.ranks, limit))
      return repeat(*block, shape.ranks, shape.micro_batches);
}

}  // namespace espalier::pipeline
