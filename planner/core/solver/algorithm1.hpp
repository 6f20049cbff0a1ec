// Algorithm 1, the incremental plan solver (Suika §3.2, Alg. 1, App. B): for every prefix of the affinity-ordered GPUs
// the best plan that expands the present one.
#pragma once

#include <span>
#include <vector>

#include "planner/core/solver/working_plan.hpp"

namespace espalier {

class PrefixSolver;

struct ExpandOptions {
  int window = 8;            // W: predecessors tried, in units
  bool keep_n_b = false;     // as printed: N_b stays the present plan's; else the divisors of G compete
  bool any_position = true;  // a new stage may stand anywhere; as printed: at the end
  bool near_tp = true;       // of a stage that changes only TP degrees near its own: a local search regroups further
  bool thinned = false;      // of long rows only the prefixes of thinning.hpp, from 1, 2, 4, 8, ... units back
  PrefixSolver* solver = nullptr;  // in Algorithm 1's place
  static ExpandOptions as_printed() { return {8, true, false, false, false, nullptr}; }
};

struct PrefixPlan {
  int gpus = 0;      // of the prefix, beside the present plan's
  WorkingPlan plan;  // exactly all of them; infeasible where no expansion fits
};

// entry 0: the present plan as it stands; entry i: the first i units used, all of them. `units`: in affinity order, one
// node and type each. Where entry i cannot exist, or is thinned out, it is infeasible; smaller entries still serve as
// predecessors.
// `known`: entries of an earlier call with the same present plan and the same first `known.size() - 1` units; they are
// taken over instead of computed.
std::vector<PrefixPlan> expand_prefixes(Evaluator& evaluator, const WorkingPlan& present, std::span<const Piece> units,
                                        const ExpandOptions& options, std::vector<PrefixPlan> known = {});

// What may stand in Algorithm 1's place (Suika §5.1: Metis "replacing incrementalParallelize()"): the same contract as
// expand_prefixes, but a plan may leave some of the GPUs idle.
class PrefixSolver {
 public:
  virtual ~PrefixSolver() = default;
  virtual std::vector<PrefixPlan> solve(Evaluator& evaluator, const WorkingPlan& present, std::span<const Piece> units,
                                        std::vector<PrefixPlan> known) = 0;
};

// One step: `base` with all of `added` (sorted pieces) as a new stage (PP-expand), as replicas of a stage (DP-expand)
// or with a stage regrouped at another TP degree (TP-expand), balanced; the best by printed time below `bound`, or
// infeasible.
WorkingPlan expand_and_balance(Evaluator& evaluator, const WorkingPlan& base, std::span<const Piece> added,
                               const ExpandOptions& options, double bound = kInfeasible);

}  // namespace espalier
