// The fastest schedule of a small problem, proven: the oracle for the search.
#pragma once

#include <cstddef>
#include <optional>

#include "planner/core/pipeline/search.hpp"

namespace espalier::bench {

struct ExactTime {
  std::optional<double> time;  // of the fastest schedule that fits; nothing: none fits, or none is faster than `upper`
  bool proven = false;         // false: more than `most_states` states; `time` means nothing then
  std::size_t states = 0;
};

// Dynamic programming over what has been started, in the order of starts. Of states in which the same has been started,
// one in which every rank and every result is there no later than in another stands for both. `upper`: only faster
// schedules are looked for.
ExactTime exact_time(const pipeline::SearchProblem& problem, double upper, std::size_t most_states);

}  // namespace espalier::bench
