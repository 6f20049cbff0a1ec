// What CUDA reads from the environment of a rank where the user has not set it.
#pragma once

#include <string>
#include <vector>

namespace espalier::launcher {

// The environment, with CUDA_DEVICE_MAX_CONNECTIONS=32 unless it has a value of its own. That is how many queues a
// process has for the work of its streams: 8 by default, at most 32 (CUDA Programming Guide, "CUDA Environment
// Variables"). Where streams share one, a copy behind a send that waits for its receiver waits too. With communicators,
// copies and NCCL's own streams a rank may have more than 8.
std::vector<std::string> with_cuda_defaults(const std::vector<std::string>& environment);

}  // namespace espalier::launcher
