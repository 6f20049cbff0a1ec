// Small scheduling problems with uneven times and tight memory.
#pragma once

#include "planner/core/pipeline/improve.hpp"
#include "planner/core/pipeline/search.hpp"

namespace espalier::bench {

// 2 to 4 ranks, 1 or 2 chunks a rank in a loop or a V, 2 to 6 micro-batches; at most 54 computations of F, I and W.
// Times of chunks differ by up to a factor of 3, messages take up to a third of a forward, B as a whole takes 85% to
// 100% of its parts. A rank's memory is between what one micro-batch needs and what 1F1B's fullest rank needs.
pipeline::SearchProblem schedule_instance(pipeline::Chance& chance);

}  // namespace espalier::bench
