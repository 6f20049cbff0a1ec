// The scheduler's options from espalier.toml. espalierd and its simulation use the same.
#pragma once

#include "planner/core/scheduler.hpp"
#include "planner/wire/config.hpp"

namespace espalier::wire {

SchedulerOptions scheduler_options(const Config& config);

// [flextrain], whatever the policy is.
FlextrainOptions flextrain_options(const Config& config);

// [arena], whatever the policy is.
ArenaPolicyOptions arena_options(const Config& config);

}  // namespace espalier::wire
