// What the user is told of a Slurm job that was granted to a job, and whose keeper has not come.
#pragma once

#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::launcher {

// HOST:PORT at which a keeper with this environment ("NAME=value") calls on its launcher; empty: it names none.
std::string place_in(const std::vector<std::string>& environment);
// `node`: where the keeper was to run. `place`: as place_in() gives it. `seconds`: how long it was waited for.
std::string absent_keeper(JobId job, const std::string& node, const std::string& place, int seconds);
// The same of one whose keeper could not start yet.
std::string configuring_node(JobId job, const std::string& node, int seconds);

}  // namespace espalier::launcher
