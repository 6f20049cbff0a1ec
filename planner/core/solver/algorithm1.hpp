// Algorithm 1, the incremental plan solver (Suika §3.2, Alg. 1, App. B). It finds, for every prefix
// of the affinity-ordered GPUs, the best plan that expands the present plan.
#pragma once

#include <span>
#include <vector>

#include "planner/core/solver/working_plan.hpp"
#include "planner/core/topology/affinity_order.hpp"

namespace espalier {

class PrefixSolver;

struct ExpandOptions {
  int window = 8;  // W: number of predecessors tried, in units
  // True, as printed: N_b stays the present plan's. False: all allowed divisors of G compete.
  bool keep_n_b = false;
  bool any_position = true;  // a new stage may stand anywhere; as printed: only at the end
  // A changed stage tries only TP degrees near its own. A local search regroups it further.
  bool near_tp = true;
  // In long rows, looks only at the prefixes of thinning.hpp, from 1, 2, 4, 8, ... units back.
  bool thinned = false;
  PrefixSolver* solver = nullptr;                 // replaces Algorithm 1
  AffinityTies ties = AffinityTies::whole_first;  // the order of the units that a caller cuts
  static ExpandOptions as_printed() { return {8, true, false, false, false, nullptr, AffinityTies::by_place}; }
};

struct PrefixPlan {
  int gpus = 0;  // GPUs of the prefix, without the present plan's
  // Uses all GPUs of the present plan and the prefix. Infeasible if no expansion fits.
  WorkingPlan plan;
  bool left_out = false;  // its row was thinned: it may exist, and was not looked at
};

// Entry 0 is the present plan as it stands. Entry i uses all GPUs of the first i units. `units` is
// in affinity order; a unit has one node and one type. Entry i is infeasible if it cannot exist or
// is thinned out. The entries before it still serve as predecessors. `known` holds entries of an
// earlier call with the same present plan and the same first `known.size() - 1` units. They are
// taken over instead of computed.
std::vector<PrefixPlan> expand_prefixes(Evaluator& evaluator, const WorkingPlan& present, std::span<const Piece> units,
                                        const ExpandOptions& options, std::vector<PrefixPlan> known = {});

// A replacement for Algorithm 1 (Suika §5.1: Metis "replacing incrementalParallelize()"). The
// contract is that of expand_prefixes, but a plan may leave some of the GPUs idle.
class PrefixSolver {
 public:
  virtual ~PrefixSolver() = default;
  virtual std::vector<PrefixPlan> solve(Evaluator& evaluator, const WorkingPlan& present, std::span<const Piece> units,
                                        std::vector<PrefixPlan> known) = 0;
};

// One step: adds all of `added` (sorted pieces) to `base` as a new stage (PP-expand), as replicas
// of a stage (DP-expand), or to a stage that is regrouped at another TP degree (TP-expand). The
// result is balanced. It is the best plan by printed time below `bound`, or infeasible.
WorkingPlan expand_and_balance(Evaluator& evaluator, const WorkingPlan& base, std::span<const Piece> added,
                               const ExpandOptions& options, double bound = kInfeasible);

}  // namespace espalier
