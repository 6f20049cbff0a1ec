// The search of `espalier schedule`. Pure.
#pragma once

#include "planner/cli/schedule_arguments.hpp"
#include "planner/core/pipeline/search.hpp"

namespace espalier::cli {

// The fastest schedule that fits: with the chunks of `given`, and from it on, or else, over the placements that
// --chunks allows: one or two chunks a rank without it, two also in a V. Throws Error when nothing fits.
pipeline::Found searched_schedule(const ScheduleArguments& arguments, const pipeline::Schedule* given);

}  // namespace espalier::cli
