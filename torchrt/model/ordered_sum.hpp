// Sums of tensors in a fixed order, on the device.
#pragma once

#include <span>

#include "torchrt/comm/buffer.hpp"
#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

// combine_in_order() for sums in GPU memory, on the compute stream of the current GPU.
void ordered_sum(const Device& device, std::span<const Buffer> parts, Buffer into);

}  // namespace espalier::torchrt
