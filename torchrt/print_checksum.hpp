// The line about the weights that --checksum asks a worker for.
#pragma once

#include <cstdint>

#include "torchrt/comm/world.hpp"
#include "torchrt/rank_state.hpp"

namespace espalier::torchrt {

// For a state that is the one after `step`. Rank 0 prints. Collective.
void print_checksum(RankState& state, const World& world, int generation, std::int64_t step);

}  // namespace espalier::torchrt
