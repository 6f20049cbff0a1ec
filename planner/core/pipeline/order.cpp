#include "planner/core/pipeline/order.hpp"

#include <algorithm>

namespace espalier::pipeline {

Order order_of(const Schedule& schedule) {
  Order order;
  for (const auto& list : schedule.actions) {
    RankOrder& steps = order.emplace_back();
    for (const Action& action : list) steps.push_back({action.kind, static_cast<std::int16_t>(action.chunk)});
  }
  return order;
}

Schedule schedule_of(const Order& order, const SearchProblem& problem) {
  Schedule schedule{problem.micro_batches, problem.rank_of_chunk, {}};
  struct Next {
    int forward = 0, backward = 0;
    std::vector<int> owed;  // micro-batches whose W is still to come
    std::size_t paid = 0;
  };
  std::vector<Next> next(problem.rank_of_chunk.size());
  for (const RankOrder& steps : order) {
    std::vector<Action>& list = schedule.actions.emplace_back();
    for (const Step& step : steps) {
      Next& at = next[static_cast<std::size_t>(step.chunk)];
      int m = 0;
      switch (step.kind) {
        case Compute::forward:
          m = at.forward++;
          break;
        case Compute::backward:
          m = at.backward++;
          break;
        case Compute::backward_input:
          at.owed.push_back(m = at.backward++);
          break;
        case Compute::backward_weight:
          m = at.owed[at.paid++];
          break;
      }
      list.push_back({step.kind, step.chunk, m});
    }
  }
  return schedule;
}

double peak_of(const RankOrder& order, const Costs& costs) {
  double held = 0, peak = 0;
  for (const Step& step : order) {
    const ChunkCosts& cost = costs[static_cast<std::size_t>(step.chunk)];
    switch (step.kind) {
      case Compute::forward:
        peak = std::max(peak, held += cost.activation);
        break;
      case Compute::backward:
        held -= cost.activation;
        break;
      case Compute::backward_input:
        held -= cost.freed_by_input;
        break;
      case Compute::backward_weight:
        held -= cost.activation - cost.freed_by_input;
        break;
    }
  }
  return peak;
}

bool fits(const Order& order, const SearchProblem& problem) {
  for (std::size_t rank = 0; rank < problem.memory.size(); ++rank)
    if (!within(peak_of(order[rank], problem.costs), problem.memory[rank])) return false;
  return true;
}

}  // namespace espalier::pipeline
