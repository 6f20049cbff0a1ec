// Gradients as integers: int64 in units of 2^-50. The sum of integers does not depend on their
// order. Includes torch.
#pragma once

#include <ATen/core/Tensor.h>

namespace espalier::torchrt {

// total += round(values * 2^50); with `fresh`: total = round(values * 2^50). `values` holds one or more tensors of the
// shape of `total`, one after the other: each is rounded and added. `out_of_range` (one bool on the device) becomes
// true when a value is not a number or its magnitude is at least `most`. Both tensors are contiguous.
void add_fixed_point(const at::Tensor& total, const at::Tensor& values, bool fresh, double most,
                     const at::Tensor& out_of_range);
// values = total * 2^-50
void from_fixed_point(const at::Tensor& values, const at::Tensor& total);

}  // namespace espalier::torchrt
