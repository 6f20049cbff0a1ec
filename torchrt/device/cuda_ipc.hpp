// GPU memory that other processes of the node map by CUDA's IPC handles, for GPUs without
// descriptors. The memory lives as long as the process that allocated it.
#pragma once

#include <cstddef>
#include <memory>

#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

// Allocates zeroed memory on the current GPU. Its fd() is a memfd that holds the handle. Throws
// Error.
std::unique_ptr<Allocation> allocate_ipc(std::size_t bytes);

// Maps memory that another process got from allocate_ipc(bytes). Throws Error.
std::unique_ptr<Allocation> map_ipc(UniqueFd fd, std::size_t bytes);

}  // namespace espalier::torchrt
