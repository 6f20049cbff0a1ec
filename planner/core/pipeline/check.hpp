// Tells whether a schedule is sound. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/core/pipeline/schedule.hpp"

namespace espalier::pipeline {

// A broken rule, in one sentence. `rank` and `at` say at which action it was noticed; -1: at none in particular.
struct Problem {
  int rank = -1, at = -1;
  std::string text;
};

// The rules:
// - Every rank holds at least one chunk, and every chunk is on one of the ranks.
// - A rank computes its own chunks only.
// - Every chunk runs on every micro-batch forward once, and backward once: as B, or as I and later W.
// - Backward comes after forward on the rank.
// - No rank waits for ever: forward of a chunk needs forward of the chunk before it, backward (B or I) needs that of
// the
//   chunk behind it, and a rank keeps to its order.
// Deadlocks are looked for only when nothing else is wrong: then one problem a rank that waits. Empty: sound.
std::vector<Problem> find_problems(const Schedule& schedule);
// The same as sentences that name rank and action.
std::vector<std::string> check(const Schedule& schedule);

}  // namespace espalier::pipeline
