// The search for a plan around a grid's Pareto plans (Arena §3.6).
#pragma once

#include <optional>
#include <span>

#include "planner/core/grid/grid.hpp"

namespace espalier {

struct PrunedResult {
  Solution best;     // the proxy plan at worst
  double plans = 0;  // that were evaluated
};

// Three rules leave few plans: the number of stages is the proxy's; partitions that are less balanced
// than every plan of the frontier are left out; a stage that holds the same layers as a stage of a
// frontier plan has that one's GPUs and degrees. At most `most` plans are evaluated.
PrunedResult pruned_search(Evaluator& evaluator, std::span<const Piece> gpus, const Proxy& proxy, double most = 2e6);

// Plans of the full search: of all grids of 1, 2, 4, ... stages, every partition, every assignment of
// powers of two of GPUs, every TP degree of every stage.
double full_search_plans(const Evaluator& evaluator, int gpus);

}  // namespace espalier
