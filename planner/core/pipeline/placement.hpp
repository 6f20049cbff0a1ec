// Which rank holds which chunk. Pure.
#pragma once

#include <vector>

namespace espalier::pipeline {

// Chunk c is on rank c mod `ranks`: 0 1 2 0 1 2 (interleaving, Narayanan et al. 2021).
std::vector<int> looped_placement(int ranks, int chunks_per_rank);
// Two chunks a rank, the second ones in reverse: 0 1 2 2 1 0 (V-schedules, Qi et al. 2024).
std::vector<int> v_placement(int ranks);
// The chunks of each of `ranks` ranks, ascending.
std::vector<std::vector<int>> chunks_of_ranks(const std::vector<int>& rank_of_chunk, int ranks);

}  // namespace espalier::pipeline
