// Between mpirun or orted and a rank: tells how the rank has ended. mpirun, which is to bear the loss of ranks, does
// not.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace espalier::launcher {

// Runs `command` (a leading "--" is skipped) and ends as it does: returns its exit code, or dies of the same signal.
// Before, `tell` is called with that code, or with 128 and the signal's number, unless it is 0 or the parent of this
// process is gone as well. Signals are not passed on: orted's reach the whole process group, Slurm's every process of
// the step. So preemption's do not end this one, which ignores all. When the parent dies, the command has two seconds
// to end in its own way; when this process dies, it gets SIGKILL. Throws Error.
int tether_rank(const std::vector<std::string>& arguments, const std::function<void(int code)>& tell);

}  // namespace espalier::launcher
