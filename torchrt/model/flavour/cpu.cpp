#include "planner/core/error.hpp"
#include "torchrt/model/fixed_point_device.hpp"
#include "torchrt/model/host_memory.hpp"
#include "torchrt/model/tensor_device.hpp"

namespace espalier::torchrt {

c10::Device tensor_device(const Device&) { return c10::kCPU; }
std::size_t most_torch_memory(const Device&) { return most_host_memory(); }
std::size_t most_tensor_memory(const Device&) { return most_host_memory(); }
void reset_most_torch_memory(const Device&) { reset_most_host_memory(); }
void release_torch_memory(const Device&) {}  // malloc keeps little

// All tensors are in host memory.
void add_fixed_point_on_device(const at::Tensor&, const at::Tensor&, bool, float, const at::Tensor&) {
  ESPALIER_INVARIANT(false);
}
void from_fixed_point_on_device(const at::Tensor&, const at::Tensor&) { ESPALIER_INVARIANT(false); }

}  // namespace espalier::torchrt
