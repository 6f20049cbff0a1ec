// Slurm's library in a command that can do without it.
#pragma once

#include <string>

namespace espalier::cli {

// slurm_init(). Throws Error where this host has no usable configuration of Slurm, with `otherwise`: what else to do
// ("or describe the cluster in a file"); may be empty. So it does where the library has not got one within a
// minute: on a host without the file it asks slurmctld.
void start_slurm(const std::string& otherwise);

}  // namespace espalier::cli
