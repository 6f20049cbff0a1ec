// What becomes of the lists in the file of --schedule, in words.
#pragma once

#include <memory>

#include "planner/core/pipeline/schedule.hpp"
#include "torchrt/comm/world.hpp"
#include "torchrt/rank_state.hpp"

namespace espalier::torchrt {

// Rank 0 tells the user on stderr what the plan of `state` makes of the file's `lists`. Null: there is no file, and
// nothing is told.
void tell_of_own_lists(const std::shared_ptr<const pipeline::Schedule>& lists, const RankState& state,
                       const World& world);

}  // namespace espalier::torchrt
