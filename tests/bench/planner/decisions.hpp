// How long decisions take on a busy cluster, and how much gain lazy rounds lose against solving every job in every
// round.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "planner/core/scheduler.hpp"
#include "tests/bench/planner/busy_cluster.hpp"

namespace espalier::bench {

struct DecisionRun {
  BusyOptions cluster;
  int decisions = 2000;
  int eager_every = 20;  // the decision on every Nth release is compared; 0: none
  bool arena = false;    // policy arena; its type switches are not in the run
  bool as_printed = false;
  // Called with each decision's input, and with what was decided. Empty: nothing is called.
  std::function<void(const PlanningInput&, const std::vector<Decision>&)> watch = {};
};

struct DecisionFigures {
  std::vector<double> ms, cpu_ms;  // of each decision: wall clock; CPU time of this process alone
  // Of planners that have just started, on the same clusters as some of the decisions, the first one's among them.
  std::vector<double> cold_start_ms;
  double gain = 0, eager_gain = 0;
  // Sums over all decisions.
  double load = 0;
  std::size_t jobs = 0, idle = 0, waiting = 0;
  std::size_t releases = 0, compared = 0, grown = 0, shrunk = 0, replanned = 0, moved = 0;
};

// Deterministic but for the times. Throws Error for options that cannot be.
DecisionFigures measure_decisions(const DecisionRun& run);

}  // namespace espalier::bench
