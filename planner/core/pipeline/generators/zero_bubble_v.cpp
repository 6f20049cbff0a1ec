#include <algorithm>

#include "planner/core/pipeline/generators/generators.hpp"
#include "planner/core/pipeline/placement.hpp"

namespace espalier::pipeline {
namespace {

// Appends the next action of a kind on one of the rank's two chunks.
class List {
 public:
  List(int down, int up, int micro_batches) : chunk_{down, up}, micro_batches_(micro_batches) {}

  int forwards(int which) const { return next_[which][0]; }
  void forward(int which) { next(Compute::forward, which, next_[which][0]); }
  void input(int which) { next(Compute::backward_input, which, next_[which][1]); }
  void weight(int which) { next(Compute::backward_weight, which, next_[which][2]); }
  void backward(int which) { input(which), weight(which); }
  bool owes_weight(int which) const { return next_[which][2] < next_[which][1]; }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  // Micro-batches beyond the step's are counted and left out.
  void next(Compute kind, int which, int& counter) {
    if (counter < micro_batches_) actions_.push_back({kind, chunk_[which], counter});
    ++counter;
  }

  int chunk_[2];
  const int micro_batches_;
  int next_[2][3] = {};
  std::vector<Action> actions_;
};

}  // namespace

Schedule zero_bubble_v(const Shape& shape) {
  const int p = shape.ranks;
  // The phases need as many micro-batches to fill the pipeline; those that the step does not have are left out.
  const int count = std::max(shape.micro_batches, 2 * p - 1);
  Schedule schedule{shape.micro_batches, v_placement(p), {}};
  for (int rank = 0; rank < p; ++rank) {
    List list(rank, 2 * p - 1 - rank, shape.micro_batches);
    // Fill: down the V until the first micro-batch has come back up, then both ways, then the first backwards.
    for (int k = 0; k < 2 * (p - rank) - 1; ++k) list.forward(0);
    for (int k = 0; k < rank; ++k) list.forward(1), list.forward(0);
    for (int k = 0; k < p - rank; ++k) list.forward(1), list.backward(1);
    // Steady: one forward and one backward on each chunk in turn.
    while (list.forwards(1) < count) {
      if (list.forwards(0) < count) list.forward(0);
      list.backward(0);
      list.forward(1), list.backward(1);
    }
    // Drain: gradients of the inputs go on at once, and those of the parameters fill the gaps.
    for (int k = 0; k < rank; ++k) list.input(0), list.input(1);
    for (int k = 0; k < p - rank; ++k) list.input(0), list.weight(0);
    while (list.owes_weight(1)) list.weight(1);
    while (list.owes_weight(0)) list.weight(0);
    schedule.actions.push_back(list.take());
  }
  return schedule;
}

}  // namespace espalier::pipeline
