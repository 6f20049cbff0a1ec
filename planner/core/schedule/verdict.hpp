// Why a job does not grow in a decision, for people. Internal to the scheduler.
#pragma once

#include "planner/core/schedule/player.hpp"

namespace espalier {

// Of a job that could grow and did not. `threshold`: tau of the decision.
Weighed verdict_of(Player& one, double threshold);

}  // namespace espalier
