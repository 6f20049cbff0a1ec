// Sum of squares in float64, in an order that depends only on the length. Includes torch.
#pragma once

#include <ATen/core/Tensor.h>

namespace espalier::torchrt {

// `values`: float32, contiguous. Waits for the device.
double squared_sum(const at::Tensor& values);

}  // namespace espalier::torchrt
