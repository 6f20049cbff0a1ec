// The objective applied to the jobs of one decision. Internal to the scheduler.
#pragma once

#include <vector>

#include "planner/core/schedule/player.hpp"

namespace espalier {

// Sets Player::standing, discount and turn (objective.hpp). With as_printed the paper compares benefits as they are; a
// deadline counts there as well.
void take_standing(std::vector<Player>& players, const SchedulerOptions& options, const PlanningInput& input);

}  // namespace espalier
