// The small programs between mpirun and a rank, which prepare and exec. Those that stay are in tether.hpp and
// tether_rank.hpp.
#pragma once

#include <string>
#include <vector>

namespace espalier::launcher {

// mpirun's rsh agent: `agent HOST COMMAND...` starts orted on HOST inside the job that owns GPUs there, by a tethered
// srun.
int agent(const std::vector<std::string>& arguments);

// On the node, right before orted: makes the generation's directory, in an extension blocks SIGTERM (Slurm's preemption
// signals every process of the step, and orted would die of it), and execs.
int shield(const std::vector<std::string>& arguments);

// execvp; returns 127 after a message when it fails, as a shell would.
int replace_by(const std::vector<std::string>& command);

// 0, or the error number that executing `program` (looked up in PATH when it has no slash) would end in.
int execution_error(const std::string& program);

}  // namespace espalier::launcher
