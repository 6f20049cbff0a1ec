// Where the tensors of a device are, and the memory that torch holds there. Each flavour of the program has its own
// (model/flavour). Includes torch.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>

#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

c10::Device tensor_device(const Device& device);

// The most bytes that torch held at once on the device since the last reset: with what its allocator keeps for later
// tensors, which no other process can have; and of tensors alone.
std::size_t most_torch_memory(const Device& device);
std::size_t most_tensor_memory(const Device& device);
void reset_most_torch_memory(const Device& device);
// Gives memory that torch keeps for later tensors back to the device, for other processes. Waits for the device.
void release_torch_memory(const Device& device);

}  // namespace espalier::torchrt
