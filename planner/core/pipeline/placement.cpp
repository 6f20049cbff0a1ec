#include "planner/core/pipeline/placement.hpp"

namespace espalier::pipeline {

std::vector<int> looped_placement(int ranks, int chunks_per_rank) {
  std::vector<int> rank_of_chunk(static_cast<std::size_t>(ranks) * chunks_per_rank);
  for (std::size_t c = 0; c < rank_of_chunk.size(); ++c) rank_of_chunk[c] = static_cast<int>(c) % ranks;
  return rank_of_chunk;
}

std::vector<int> v_placement(int ranks) {
  std::vector<int> rank_of_chunk;
  for (int rank = 0; rank < ranks; ++rank) rank_of_chunk.push_back(rank);
  for (int rank = ranks - 1; rank >= 0; --rank) rank_of_chunk.push_back(rank);
  return rank_of_chunk;
}

std::vector<std::vector<int>> chunks_of_ranks(const std::vector<int>& rank_of_chunk, int ranks) {
  std::vector<std::vector<int>> chunks(static_cast<std::size_t>(ranks));
  for (std::size_t c = 0; c < rank_of_chunk.size(); ++c)
    chunks[static_cast<std::size_t>(rank_of_chunk[c])].push_back(static_cast<int>(c));
  return chunks;
}

}  // namespace espalier::pipeline
