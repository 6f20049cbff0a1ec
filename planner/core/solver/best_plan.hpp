// The planner's own search: the best plan on a given set of GPUs. The plan may leave GPUs idle.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "planner/core/solver/evaluator.hpp"
#include "planner/core/solver/solution.hpp"

namespace espalier {

struct SearchEffort {
  // Number of best near-symmetric tilings from which local search starts.
  int seeds = 3;
  // Most accepted moves of a local search; 0: the starts stay as they are.
  int local_steps = 20;
  // Work limit of the Pareto dynamic programmes (plan_from_scratch); 0: not run.
  long pareto_labels = 50'000;
  long local_candidates = std::numeric_limits<long>::max();  // work limit of each local search
  bool operator==(const SearchEffort&) const = default;
};

// `available`: sorted pieces. `starts`: plans on subsets of these pieces, from which the search
// starts (the present plan, Algorithm 1's prefixes). They need not be balanced. nullopt: nothing
// valid fits. Deterministic. Never worse, in printed time, than a balanced start.
std::optional<Solution> best_plan(Evaluator& evaluator, std::span<const Piece> available,
                                  std::span<const PlanSketch> starts, const SearchEffort& effort);

}  // namespace espalier
