// A tensor on memory that is not torch's. Includes torch.
#pragma once

#include <ATen/ops/from_blob.h>

namespace espalier::torchrt {

// `options` names the device with its index: torch then asks nobody whose memory it is. The memory must outlive the
// tensor.
inline at::Tensor mapped_tensor(void* memory, at::IntArrayRef sizes, const at::TensorOptions& options) {
  return at::for_blob(memory, sizes).options(options).target_device(options.device()).make_tensor();
}

}  // namespace espalier::torchrt
