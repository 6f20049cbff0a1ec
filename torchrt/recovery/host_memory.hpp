// How much memory of this host a process may still take.
#pragma once

#include <cstdint>
#include <string>

namespace espalier::torchrt {

// Bytes: what the host has available, or less where a control group of this process (Slurm's --mem, a container) allows
// less. `root`: where /proc and /sys are, for tests. 0: nothing could be read. Costs a few small files.
std::int64_t free_host_memory(const std::string& root = "");

}  // namespace espalier::torchrt
