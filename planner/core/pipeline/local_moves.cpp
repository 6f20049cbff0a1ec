#include "planner/core/pipeline/local_moves.hpp"

#include <algorithm>

namespace espalier::pipeline {
namespace {

// How many of the chunk's steps of a kind are ahead at a place.
struct Ahead {
  int forwards = 0;  // F without I or B
  int inputs = 0;    // I without W
};

Ahead ahead(const RankOrder& order, int end, int chunk) {
  Ahead result;
  for (int i = 0; i < end; ++i) {
    const Step& step = order[static_cast<std::size_t>(i)];
    if (step.chunk != chunk) continue;
    switch (step.kind) {
      case Compute::forward:
        ++result.forwards;
        break;
      case Compute::backward:
        --result.forwards;
        break;
      case Compute::backward_input:
        --result.forwards, ++result.inputs;
        break;
      case Compute::backward_weight:
        --result.inputs;
        break;
    }
  }
  return result;
}

bool is_backward(Compute kind) { return kind == Compute::backward || kind == Compute::backward_input; }

}  // namespace

Reach reach(const RankOrder& order, int at) {
  const Step self = order[static_cast<std::size_t>(at)];
  const Ahead before = ahead(order, at, self.chunk);
  // Going up, a backward may pass so many F, and a W so many I. Going down, an F may pass so many backwards, and an I
  // so many W.
  int up = self.kind == Compute::backward_weight ? before.inputs - 1 : before.forwards - 1;
  int down = self.kind == Compute::forward ? before.forwards : before.inputs;
  Reach result{at, at};
  while (result.first > 0) {
    const Step& other = order[static_cast<std::size_t>(result.first) - 1];
    if (other.chunk == self.chunk) {
      if (other.kind == self.kind || (is_backward(other.kind) && is_backward(self.kind))) break;
      if (is_backward(self.kind) && other.kind == Compute::forward && up-- == 0) break;
      if (self.kind == Compute::backward_weight && other.kind == Compute::backward_input && up-- == 0) break;
    }
    --result.first;
  }
  while (result.last + 1 < static_cast<int>(order.size())) {
    const Step& other = order[static_cast<std::size_t>(result.last) + 1];
    if (other.chunk == self.chunk) {
      if (other.kind == self.kind || (is_backward(other.kind) && is_backward(self.kind))) break;
      if (self.kind == Compute::forward && is_backward(other.kind) && down-- == 0) break;
      if (self.kind == Compute::backward_input && other.kind == Compute::backward_weight && down-- == 0) break;
    }
    ++result.last;
  }
  return result;
}

void move_step(RankOrder& order, int from, int to) {
  const auto begin = order.begin();
  if (from < to) std::rotate(begin + from, begin + from + 1, begin + to + 1);
  else std::rotate(begin + to, begin + from, begin + from + 1);
}

void split_backward(RankOrder& order, int at) {
  Step& step = order[static_cast<std::size_t>(at)];
  step.kind = Compute::backward_input;
  order.insert(order.begin() + at + 1, {Compute::backward_weight, step.chunk});
}

bool join_backward(RankOrder& order, int at, bool late) {
  const Step self = order[static_cast<std::size_t>(at)];
  int owed = ahead(order, at, self.chunk).inputs;  // W of earlier I come first
  for (int i = at + 1; i < static_cast<int>(order.size()); ++i) {
    const Step& other = order[static_cast<std::size_t>(i)];
    if (other.chunk != self.chunk) continue;
    if (late && is_backward(other.kind)) return false;
    if (other.kind != Compute::backward_weight || owed-- > 0) continue;
    order[static_cast<std::size_t>(late ? i : at)].kind = Compute::backward;
    order.erase(order.begin() + (late ? at : i));
    return true;
  }
  return false;
}

}  // namespace espalier::pipeline
