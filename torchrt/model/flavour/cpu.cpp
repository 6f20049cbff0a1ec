#include "torchrt/model/host_memory.hpp"
#include "torchrt/model/tensor_device.hpp"

namespace espalier::torchrt {

c10::Device tensor_device(const Device&) { return c10::kCPU; }
std::size_t most_torch_memory(const Device&) { return most_host_memory(); }
void reset_most_torch_memory(const Device&) { reset_most_host_memory(); }
void release_torch_memory(const Device&) {}  // malloc keeps little

}  // namespace espalier::torchrt
