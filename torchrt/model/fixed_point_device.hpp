// fixed_point.hpp on a GPU. Each flavour of the program has its own (model/flavour); where tensors are in host memory
// only, nothing calls these. Includes torch.
#pragma once

#include <ATen/core/Tensor.h>

namespace espalier::torchrt {

// In one pass, on torch's present stream: values are read once, totals read and written once. With one tensor of values
// the pass moves 20 bytes a value (12 with `fresh`), with four tensors 8 bytes a value.
void add_fixed_point_on_device(const at::Tensor& total, const at::Tensor& values, bool fresh, float most,
                               const at::Tensor& out_of_range);
void from_fixed_point_on_device(const at::Tensor& values, const at::Tensor& total);

}  // namespace espalier::torchrt
