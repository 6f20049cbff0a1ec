#include "torchrt/model/layers/pass.hpp"

#include "planner/core/error.hpp"

namespace espalier::torchrt {

Buffer buffer_of(const at::Tensor& tensor) {
  ESPALIER_INVARIANT(tensor.is_contiguous());
  DataType type = DataType::float32;
  if (tensor.scalar_type() == at::kBFloat16) type = DataType::bfloat16;
  else if (tensor.scalar_type() == at::kLong) type = DataType::int64;
  else if (tensor.scalar_type() == at::kDouble) type = DataType::float64;
  else ESPALIER_INVARIANT(tensor.scalar_type() == at::kFloat);
  return {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), type};
}

void sum_over(Group* group, const at::Tensor& tensor) {
  if (group != nullptr) group->sum(buffer_of(tensor));
}

void max_over(Group* group, const at::Tensor& tensor) {
  if (group != nullptr) group->max(buffer_of(tensor));
}

}  // namespace espalier::torchrt
