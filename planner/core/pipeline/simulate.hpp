// How long a schedule takes and how much memory it needs, when every action takes a given time. Pure.
#pragma once

#include <vector>

#include "planner/core/pipeline/costs.hpp"
#include "planner/core/pipeline/schedule.hpp"

namespace espalier::pipeline {

struct Span {
  double start = 0, end = 0;
};

struct RankFigures {
  double busy = 0;             // time in which it computes
  double first = 0, last = 0;  // start of its first action, end of its last one
  double peak = 0;             // memory of activations, from F to the end of W or B
};

struct Simulation {
  double time = 0;  // from the start of the step to the end of the last action; the optimizer is not in it
  std::vector<RankFigures> ranks;
  std::vector<std::vector<Span>> spans;  // of each action, in the shape of Schedule::actions

  // Idle share of the time, of one rank and of all.
  double bubble(int rank) const;
  double bubble() const;
  // As the papers on zero bubble measure it (Qi et al. 2024): idle share of a rank's own span, from the start of its
  // first action to the end of its last. All ranks: idle time in the spans over the sum of the spans.
  double span_bubble(int rank) const;
  double span_bubble() const;
  double peak() const;  // of the rank that needs most
};

// The schedule must be sound (check()), and `costs` have an entry for each chunk.
Simulation simulate(const Schedule& schedule, const Costs& costs);

}  // namespace espalier::pipeline
