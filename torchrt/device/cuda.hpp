// A GPU's memory through CUDA's virtual memory: allocations that other processes map by POSIX descriptor. Where the GPU
// or its driver knows no such descriptors: through CUDA IPC (cuda_ipc.hpp).
#pragma once

#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

enum class CudaSharing { best, descriptors, ipc };

// `index` counts the GPUs this process can see. Throws Error when there is none.
std::unique_ptr<Device> make_cuda_device(int index, CudaSharing sharing = CudaSharing::best);

}  // namespace espalier::torchrt
