// The other processes of this user on this node.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::launcher {

// Calls `visit` for each process of this user on this node but this one, with the environment that it was started with.
// The environment is empty if this process may not read it, e.g. that of a program with other rights than the user's.
void each_own_process(const std::function<void(pid_t process, const std::string& environment)>& visit);

// The value of a variable of such an environment. Empty: it is not there.
std::string variable_in(const std::string& environment, const std::string& name);

// Whether a process of this user on this node belongs to another step of the job.
bool another_step_runs(JobId job, unsigned step);

}  // namespace espalier::launcher
