// The schedule's options as the configuration says. Pure.
#pragma once

#include "planner/core/plan.hpp"
#include "torchrt/config.hpp"
#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

// Name, ZeRO-1, recomputing, tied tables. A plan's own schedule comes before the configuration's.
ScheduleOptions schedule_options(const Config& config, const Plan& plan);

}  // namespace espalier::torchrt
