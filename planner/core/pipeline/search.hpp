// Finds a fast schedule whose activations fit into the memory of every rank (FlexTrain §4.3). Pure and deterministic:
// the bound is a number of operations that are looked at, not a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/core/pipeline/costs.hpp"
#include "planner/core/pipeline/schedule.hpp"

namespace espalier::pipeline {

struct SearchProblem {
  int ranks = 1, micro_batches = 1;
  std::vector<int> rank_of_chunk;
  Costs costs;                 // by chunk; ranks and chunks may differ in everything
  std::vector<double> memory;  // for activations, by rank; empty: no limit
};

struct SearchOptions {
  std::uint64_t seed = 1;
  // The search ends after about so many steps, each some nanoseconds long: one is the simulation of one action. The
  // schedules to start from are tried in any case.
  std::int64_t work = 0;
};

// As many steps as pay: some 0.6 s on a core for a large problem, less for a small one.
std::int64_t usual_work(const SearchProblem& problem);

struct Found {
  Schedule schedule;  // empty lists: nothing fits
  double time = 0;
  // The fastest of the known schedules with this placement that fit; empty when there is none.
  std::string best_generator;
  double generator_time = 0;
  bool found() const { return !schedule.actions.empty(); }
};

// Never slower than the fastest generator that fits. Starts from the generators of the same placement and from
// schedules that are built in time order by several rules of priority, with room kept for what must still run, and
// improves the best ones along their critical paths. Whether to run B as a whole or in parts is part of the search.
// `starts`: sound schedules of this placement to start from as well. When even one micro-batch at a time needs more
// memory, nothing is found.
Found search(const SearchProblem& problem, const SearchOptions& options, const std::vector<Schedule>& starts = {});

}  // namespace espalier::pipeline
