// Between a launcher or keeper and an srun: ends the srun when they die, and so that Slurm notices at once.
#pragma once

#include <string>
#include <vector>

namespace espalier::launcher {

// Runs `command` (a leading "--" is skipped) and returns its exit code. When the parent of this process dies, or
// SIGTERM comes, the command gets SIGTERM, and SIGKILL two seconds later; when this process dies, SIGKILL. An srun that
// is told to end kills its tasks and hears slurmstepd's last messages; to an srun that is dead already slurmstepd
// repeats each of them for 2.3 s, and all that time the step holds its GPUs. Other signals are passed on. Throws Error.
int tether(const std::vector<std::string>& arguments);

}  // namespace espalier::launcher
