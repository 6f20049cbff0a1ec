// One function a known schedule; generate.hpp names them. The shape's numbers are at least 1, and its chunks are those
// that the table in generate.cpp tells. All are sound for any number of ranks and micro-batches. Pure.
#pragma once

#include "planner/core/pipeline/generate.hpp"

namespace espalier::pipeline {

// As many forwards first as ranks follow, then backward and forward in turn (PipeDream-Flush, Narayanan et al. 2021).
Schedule one_forward_one_backward(const Shape& shape);
// All forwards, then all backwards (Huang et al. 2019); with several chunks a rank breadth first (Lamy-Poirier 2023).
Schedule gpipe(const Shape& shape);
// 1F1B on several chunks a rank, looped over the ranks (Narayanan et al. 2021, §2.2). Micro-batches go in groups of as
// many as there are ranks, or somewhat more where their number is no multiple of that.
Schedule interleaved(const Shape& shape);
// Zero bubble with handcrafted lists (Qi et al. 2023, §2). H1: at most as many micro-batches on any rank as 1F1B has on
// the first. H2: twice as many, less one; no bubble in the steady state when F, I and W take the same time.
Schedule zero_bubble_h1(const Shape& shape);
Schedule zero_bubble_h2(const Shape& shape);
// Two chunks a rank in a V, the memory of 1F1B, no bubble but the start's when F, I and W take the same time (Qi et al.
// 2023, §6).
Schedule zero_bubble_v(const Shape& shape);
// The same placement with half and about a third of 1F1B's memory (Qi et al. 2024).
Schedule v_half(const Shape& shape);
Schedule v_min(const Shape& shape);
// The least memory possible: a rank holds the activations of one micro-batch (FlexTrain §4.1, Figure 3).
Schedule memory_minimised(const Shape& shape);

}  // namespace espalier::pipeline
