#include "torchrt/model/ordered_sum.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "torchrt/model/mapped_tensor.hpp"
#include "torchrt/model/tensor_device.hpp"

namespace espalier::torchrt {

namespace {

at::ScalarType torch_type(DataType type) {
  switch (type) {
    case DataType::float32:
      return at::kFloat;
    case DataType::bfloat16:
      return at::kBFloat16;
    case DataType::int64:
      return at::kLong;
    case DataType::float64:
      return at::kDouble;
  }
  return at::kFloat;
}

at::Tensor view(const Buffer& buffer, c10::Device where) {
  return mapped_tensor(buffer.data, {static_cast<std::int64_t>(buffer.count)},
                       at::TensorOptions().dtype(torch_type(buffer.type)).device(where));
}

}  // namespace

void ordered_sum(const Device& device, std::span<const Buffer> parts, Buffer into) {
  if (into.count == 0) return;
  const at::NoGradGuard no_grad;
  const c10::Device where = tensor_device(device);
  const at::ScalarType wide = into.type == DataType::bfloat16 ? at::kFloat : torch_type(into.type);
  at::Tensor sum = view(parts[0], where).to(wide, false, true);
  for (const Buffer& part : parts.subspan(1)) sum.add_(view(part, where));
  view(into, where).copy_(sum);
}

}  // namespace espalier::torchrt
