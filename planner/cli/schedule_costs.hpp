// The costs that the options of `espalier schedule` describe. Pure.
#pragma once

#include "planner/cli/schedule_arguments.hpp"
#include "planner/core/pipeline/costs.hpp"
#include "planner/core/pipeline/schedule.hpp"

namespace espalier::cli {

// A rank's values are divided evenly among its chunks. Throws UsageError when an option has another number of values
// than one, one a rank or one a chunk.
pipeline::Costs schedule_costs(const ScheduleArguments& arguments, const pipeline::Schedule& schedule);
// For activations, by rank; empty: no limit. Throws UsageError when the number of values is wrong.
std::vector<double> schedule_memory(const ScheduleArguments& arguments, const pipeline::Schedule& schedule);
// Activations of the first rank's chunks on one micro-batch. Never 0.
double stage_activation(const pipeline::Costs& costs, const pipeline::Schedule& schedule);

}  // namespace espalier::cli
