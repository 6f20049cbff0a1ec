// Whose turn it is: how the benefits of different jobs compare. Not in Suika. Internal to the
// scheduler.
#pragma once

#include <map>
#include <vector>

#include "planner/core/schedule/player.hpp"

namespace espalier {

// Sets Player::turn to W^-short_first, where W is the job's work left: the seconds until its end at
// its present speed times the size of its GPUs. Jobs whose end is not known count with the mean of
// the others.
//
// Why: with short_first = 1, benefit times turn is the part of the job's remaining work that one
// more GPU does each second. Serving the largest first is the c-mu rule, which lowers the average
// completion time. For jobs that scale linearly it is SRPT; for others heSRPT (Berg, Vesilo,
// Harchol-Balter 2020) shares in the same order.
//
// `weights` (PlanningInput::weights) multiply the result.
void take_turns(std::vector<Player>& players, double short_first, const std::map<JobId, double>& weights);

}  // namespace espalier
