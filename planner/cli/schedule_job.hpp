// What `espalier schedule` compares schedules by, when it is asked about a job.
#pragma once

#include <string>

#include "planner/cli/schedule_arguments.hpp"

namespace espalier::cli {

// Sets ranks, micro-batches and costs to what espalierd measured of arguments.job, or to what arguments.profile tells,
// a file with the output of `espalier show job JOBID --json`. Times in ms, memory in GiB. Memory that is given stays.
// Returns a line that says so. Throws Error.
std::string take_job(ScheduleArguments& arguments);

}  // namespace espalier::cli
