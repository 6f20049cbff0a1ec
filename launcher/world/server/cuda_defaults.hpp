// What CUDA and NCCL read from the environment of a rank where the user has not set it.
#pragma once

#include <string>
#include <vector>

namespace espalier::launcher {

// The environment, with CUDA_DEVICE_MAX_CONNECTIONS=32 unless it has a value of its own. That is how many queues a
// process has for the work of its streams: 8 by default, at most 32 (CUDA Programming Guide, "CUDA Environment
// Variables"). Where streams share one, a copy behind a send that waits for its receiver waits too. With communicators,
// copies and NCCL's own streams a rank may have more than 8.
//
// `one_job`: all ranks are of one Slurm job. Where they are of several, NCCL_MNNVL_ENABLE=0 unless it has a value of
// its own. Where NVLink joins nodes (GB200 NVL72 and its like), NCCL by itself takes their GPUs for ones that can map
// each other's memory. But that needs a common IMEX channel, and Slurm gives each job one of its own: the connection
// would fail, where the network does not.
std::vector<std::string> with_cuda_defaults(const std::vector<std::string>& environment, bool one_job);

}  // namespace espalier::launcher
