// What the tests of pipeline schedules share.
#pragma once

#include <initializer_list>

#include "planner/core/pipeline/costs.hpp"
#include "planner/core/pipeline/improve.hpp"
#include "planner/core/pipeline/schedule.hpp"

namespace espalier::pipeline {

// F, I and W of a whole rank take 1 each, B takes 2, activations are 1; chunks of a rank share that evenly.
inline Costs equal_costs(const Schedule& schedule) {
  const auto chunks = static_cast<double>(schedule.rank_of_chunk.size()) / static_cast<double>(schedule.actions.size());
  ChunkCosts cost;
  cost.forward = cost.backward_input = cost.backward_weight = cost.activation = 1 / chunks;
  cost.backward = 2 / chunks;
  return Costs(schedule.rank_of_chunk.size(), cost);
}

inline Costs uneven_costs(std::size_t chunks, Chance& chance) {
  Costs costs(chunks);
  for (ChunkCosts& cost : costs) {
    cost.forward = 0.5 + chance.unit();
    cost.backward_input = 0.5 + chance.unit();
    cost.backward_weight = 0.5 + chance.unit();
    cost.backward = 0.9 * (cost.backward_input + cost.backward_weight);
    cost.activation = 0.5 + chance.unit();
    cost.freed_by_input = 0.3 * cost.activation;
    cost.send_forward = 0.2 * chance.unit();
    cost.send_backward = 0.2 * chance.unit();
  }
  return costs;
}

}  // namespace espalier::pipeline
