// Builds an order in time order: whenever a rank is free, it runs what is most urgent by a rule. Pure.
#pragma once

#include <optional>
#include <vector>

#include "planner/core/pipeline/order.hpp"

namespace espalier::pipeline {

// An action is as urgent as the time at which it would run if every micro-batch moved through the ranks at an even
// pace, one after the other. The rule says how that looks.
struct PriorityRule {
  double forward_step = 1;   // how much of a forward passes before the next chunk's is due: as a factor
  double backward_step = 1;  // the same backward
  double turn = 0;           // between forward and backward of the last chunk, in micro-batches' times
  double weight_delay = 1;   // W after its I, in micro-batches' times
  double patience = 0;       // waits for something more urgent: up to this part of what it could run meanwhile
  bool whole = false;        // B instead of I and W
};

// The order keeps to the memory of every rank. It leaves room for what the oldest micro-batches on the rank must still
// run: memory is given as a careful banker gives loans, so no order runs into a deadlock. nullopt: even one micro-batch
// needs more memory.
std::optional<Order> list_schedule(const SearchProblem& problem, const PriorityRule& rule);

}  // namespace espalier::pipeline
