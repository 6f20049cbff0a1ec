// Local search over plans on a set of GPUs: beyond the paper, on winners only (cost).
#pragma once

#include <limits>
#include <span>

#include "planner/core/solver/working_plan.hpp"

namespace espalier {

// Moves chunks between stages, to and from new stages and idle GPUs; regroups, merges, splits and swaps stages; shifts
// layers. Takes the best move of a sweep until none helps, `max_moves` were taken or about `candidates` plans looked
// at. Never returns a slower plan. `available`: sorted pieces that contain the plan's.
WorkingPlan local_search(Evaluator& evaluator, WorkingPlan plan, std::span<const Piece> available, int max_moves,
                         long candidates = std::numeric_limits<long>::max());

// Only the layers: +-1 moves judged by the printed time, which min-max balance leaves on the table with few
// micro-batches.
void polish_layers(Evaluator& evaluator, WorkingPlan& plan);

}  // namespace espalier
