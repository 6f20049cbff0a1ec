#include <algorithm>

#include "planner/core/pipeline/generators/generators.hpp"
#include "planner/core/pipeline/placement.hpp"

namespace espalier::pipeline {
namespace {

struct Turn {
  int round, micro_batch;
};

// Groups are at least as large as there are ranks, where the step has so many micro-batches: ranks would deadlock
// behind a smaller one. Their sizes differ by one at most.
int groups(const Shape& shape) { return std::max(1, shape.micro_batches / shape.ranks); }

// The order in which every rank runs its chunks forward: group by group, a group through all chunks.
std::vector<Turn> turns(const Shape& shape) {
  std::vector<Turn> order;
  const int count = groups(shape);
  for (int group = 0; group < count; ++group) {
    const int begin = shape.micro_batches * group / count, end = shape.micro_batches * (group + 1) / count;
    for (int round = 0; round < shape.chunks_per_rank; ++round)
      for (int m = begin; m < end; ++m) order.push_back({round, m});
  }
  return order;
}

}  // namespace

Schedule interleaved(const Shape& shape) {
  Schedule schedule{shape.micro_batches, looped_placement(shape.ranks, shape.chunks_per_rank), {}};
  const std::vector<Turn> order = turns(shape);
  const int total = static_cast<int>(order.size());
  const int largest = (shape.micro_batches + groups(shape) - 1) / groups(shape);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& list = schedule.actions.emplace_back();
    const auto forward = [&](int k) {
      const Turn& turn = order[static_cast<std::size_t>(k)];
      list.push_back({Compute::forward, rank + turn.round * shape.ranks, turn.micro_batch});
    };
    const int ahead = std::min(2 * (shape.ranks - 1 - rank) + (shape.chunks_per_rank - 1) * largest, total);
    for (int k = 0; k < ahead; ++k) forward(k);
    for (int k = 0; k < total; ++k) {
      if (k + ahead < total) forward(k + ahead);
      const Turn& turn = order[static_cast<std::size_t>(k)];
      const int round = shape.chunks_per_rank - 1 - turn.round;
      list.push_back({Compute::backward, rank + round * shape.ranks, turn.micro_batch});
    }
  }
  return schedule;
}

}  // namespace espalier::pipeline
