// The planner's own search: the best plan on a given set of GPUs, idle ones allowed.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "planner/core/solver/evaluator.hpp"
#include "planner/core/solver/solution.hpp"

namespace espalier {

struct SearchEffort {
  int seeds = 3;                // near-symmetric tilings that local search starts from, the best ones
  int local_steps = 20;         // accepted moves of a local search at most; 0: starts as they stand
  long pareto_labels = 50'000;  // work bound of the Pareto dynamic programmes (plan_from_scratch); 0: not run
  long local_candidates = std::numeric_limits<long>::max();  // work bound of each local search
  bool operator==(const SearchEffort&) const = default;
};

// `available`: sorted pieces. `starts`: plans on subsets of them to start from (the present plan, Algorithm 1's
// prefixes), not necessarily balanced. nullopt: nothing valid fits. Deterministic; never worse (printed form) than a
// balanced start.
std::optional<Solution> best_plan(Evaluator& evaluator, std::span<const Piece> available,
                                  std::span<const PlanSketch> starts, const SearchEffort& effort);

}  // namespace espalier
