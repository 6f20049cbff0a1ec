// How much memory torch's tensors take. The CPU's allocator here counts it; on GPUs torch's does.
// Includes torch.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>

namespace espalier::torchrt {

// CPU tensors are counted from now on. Call once, before the first tensor.
void count_host_memory();

// The most bytes held at once since the last reset.
std::size_t most_device_memory(const c10::Device& device);
void reset_most_device_memory(const c10::Device& device);

}  // namespace espalier::torchrt
