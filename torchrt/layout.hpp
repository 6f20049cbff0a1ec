// What a plan means for each rank: its units of the model and its samples of each micro-batch. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/core/plan.hpp"

namespace espalier::torchrt {

// Units number the model from front to back: 0 is the embedding, 1..layers the blocks, layers+1 the final norm and
// head.
struct RankLayout {
  int stage = 0, replica = 0;
  int first_sample = 0, samples = 0;  // of each micro-batch
  std::vector<int> units;             // ascending, without a gap
  bool first_stage = false, last_stage = false;
  bool operator==(const RankLayout&) const = default;
};

struct Layout {
  int micro_batches = 0;
  int micro_batch = 0;  // samples
  int units = 0;
  std::vector<RankLayout> ranks;              // by rank
  std::vector<std::vector<int>> stage_ranks;  // by stage, in replica order
};

// Throws Error when the plan is invalid, does not fit a model of `layers` layers, or uses tensor parallelism.
Layout make_layout(const Plan& plan, int layers);

}  // namespace espalier::torchrt
