// Why a job does not grow in a decision, for people. Internal to the scheduler.
#pragma once

#include "planner/core/schedule/player.hpp"

namespace espalier {

// Of a candidate.
inline constexpr const char* kSlowPlaced = "links between its stages make it too slow to pay for the change";

// Of a job that could grow and did not. `threshold`: tau of the decision.
Weighed verdict_of(Player& one, double threshold);

}  // namespace espalier
