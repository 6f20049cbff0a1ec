// How much memory torch's tensors take: on CPU by an allocator of our own, on GPUs by torch's. Includes torch.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>

namespace espalier::torchrt {

// CPU tensors are counted from now on. Call once, before the first tensor.
void count_host_memory();

// Bytes held at once, at most, since the last reset.
std::size_t most_device_memory(const c10::Device& device);
void reset_most_device_memory(const c10::Device& device);

}  // namespace espalier::torchrt
