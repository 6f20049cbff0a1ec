// A GPU's memory through CUDA's virtual memory: allocations that other processes map by POSIX descriptor.
#pragma once

#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

// `index` counts the GPUs this process can see. Throws Error when there is none.
std::unique_ptr<Device> make_cuda_device(int index);

}  // namespace espalier::torchrt
