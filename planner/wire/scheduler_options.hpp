// The scheduler's options as espalier.toml gives them: what espalierd runs with, and a simulation of it.
#pragma once

#include "planner/core/scheduler.hpp"
#include "planner/wire/config.hpp"

namespace espalier::wire {

SchedulerOptions scheduler_options(const Config& config);

}  // namespace espalier::wire
