// Local search over plans on a set of GPUs. Not in the paper. Its cost allows it for winners only.
#pragma once

#include <limits>
#include <span>

#include "planner/core/solver/working_plan.hpp"

namespace espalier {

// Moves chunks between stages, and to and from new stages and idle GPUs. Regroups, merges, splits
// and swaps stages, and shifts layers. Takes the best move of each sweep. Ends when no move helps,
// after `max_moves` moves, or after about `candidates` plans. Never returns a slower plan.
// `available`: sorted pieces that contain the plan's pieces.
WorkingPlan local_search(Evaluator& evaluator, WorkingPlan plan, std::span<const Piece> available, int max_moves,
                         long candidates = std::numeric_limits<long>::max());

// Moves single layers between stages as long as the printed time falls. Min-max balance misses such
// gains when there are few micro-batches.
void polish_layers(Evaluator& evaluator, WorkingPlan& plan);

}  // namespace espalier
