// What a plan gains whose chunks are placed by what the search for lists reaches
// (planner/core/model/searched_form.hpp), over one that is placed by the fastest known schedule.
#pragma once

#include <cstdint>

namespace espalier::bench {

// Ratios are of steps on lists that are searched in the same memory.
struct PlacementFigures {
  int compared = 0;                     // pipelines for which several placements fit
  int changed = 0;                      // placed otherwise than by the known schedules
  double gain_mean = 1, gain_most = 1;  // by the known schedules / by the search; of all that were compared
  double gain_changed = 1;              // the mean of those that changed
  double best_mean = 1;                 // by the search / the best of all placements, mean
  double slower_most = 1;               // its known schedule / the fastest one, until the lists are there
  double ms_most = 0, ms_mean = 0;      // CPU time of one choice
};

// `count` random pipelines: 2 to 8 GPUs, 4 to 8 layers a stage, up to four micro-batches a stage, an embedding and a
// head of up to 1 and 3 layers' work, weights that are 30% to 60% of a backward pass, and half to one and a half times
// the memory that 1F1B needs.
PlacementFigures compare_placements(int count, std::uint64_t seed);

}  // namespace espalier::bench
