// ZB-H1 and ZB-H2 differ in how many forwards come first and how long W is put off.
#include <algorithm>

#include "planner/core/pipeline/generators/generators.hpp"
#include "planner/core/pipeline/placement.hpp"

namespace espalier::pipeline {
namespace {

// `first`: forwards before the first I. `lag`: W of a micro-batch comes after I of the one that is so many later.
std::vector<Action> one_rank(int chunk, int micro_batches, int first, int lag) {
  std::vector<Action> list;
  const int ahead = std::min(first, micro_batches);
  for (int m = 0; m < ahead; ++m) list.push_back({Compute::forward, chunk, m});
  for (int m = 0; m < micro_batches; ++m) {
    list.push_back({Compute::backward_input, chunk, m});
    if (m >= lag) list.push_back({Compute::backward_weight, chunk, m - lag});
    if (m + ahead < micro_batches) list.push_back({Compute::forward, chunk, m + ahead});
  }
  for (int m = std::max(0, micro_batches - lag); m < micro_batches; ++m)
    list.push_back({Compute::backward_weight, chunk, m});
  return list;
}

}  // namespace

Schedule zero_bubble_h1(const Shape& shape) {
  Schedule schedule{shape.micro_batches, looped_placement(shape.ranks, 1), {}};
  for (int rank = 0; rank < shape.ranks; ++rank)
    schedule.actions.push_back(one_rank(rank, shape.micro_batches, shape.ranks - rank, rank));
  return schedule;
}

Schedule zero_bubble_h2(const Shape& shape) {
  Schedule schedule{shape.micro_batches, looped_placement(shape.ranks, 1), {}};
  for (int rank = 0; rank < shape.ranks; ++rank)
    schedule.actions.push_back(one_rank(rank, shape.micro_batches, 2 * (shape.ranks - rank) - 1, 2 * rank));
  return schedule;
}

}  // namespace espalier::pipeline
