// Sums of squares in float64, in an order that depends only on the length. Includes torch.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace espalier::torchrt {

// By place in `values`: float32, contiguous, all on one device. Waits for the device once, and copies once from it.
std::vector<double> squared_sums(const std::vector<at::Tensor>& values);

}  // namespace espalier::torchrt
