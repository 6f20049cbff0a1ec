// A GPU's memory through CUDA's virtual memory functions: other processes map an allocation by its
// POSIX descriptor. CUDA IPC (cuda_ipc.hpp) takes their place where the GPU or its driver has no
// such descriptors.
#pragma once

#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

enum class CudaSharing { best, descriptors, ipc };

// `index` counts the GPUs this process can see. Throws Error when there is none.
std::unique_ptr<Device> make_cuda_device(int index, CudaSharing sharing = CudaSharing::best);

}  // namespace espalier::torchrt
