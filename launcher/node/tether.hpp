// A process between the launcher and an srun. It ends the srun when the launcher dies, in a way that Slurm notices at
// once.
#pragma once

#include <string>
#include <vector>

namespace espalier::launcher {

// Runs `command` (a leading "--" is skipped) and returns its exit code. Throws Error when the command cannot be
// started.
// - When the parent of this process dies, or SIGTERM comes, the command gets SIGTERM, and SIGKILL two seconds later.
// - When this process dies, the command gets SIGKILL.
// - Other signals are passed on.
// SIGTERM comes first because an srun that is told to end kills its tasks and hears slurmstepd's last messages. If srun
// is dead, slurmstepd repeats each of these messages for 2.3 s, and the step holds its GPUs all that time.
int tether(const std::vector<std::string>& arguments);

}  // namespace espalier::launcher
