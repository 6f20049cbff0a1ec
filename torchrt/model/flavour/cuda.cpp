#include <c10/core/CachingDeviceAllocator.h>

#include "torchrt/model/host_memory.hpp"
#include "torchrt/model/tensor_device.hpp"

namespace espalier::torchrt {

c10::Device tensor_device(const Device& device) {
  if (device.kind() == DeviceKind::cpu) return c10::kCPU;
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(device.index())};
}

// With what the allocator keeps for later: other processes cannot have it.
std::size_t most_torch_memory(const Device& device) {
  if (device.kind() == DeviceKind::cpu) return most_host_memory();
  const c10::Device where = tensor_device(device);
  const auto& reserved = at::getDeviceAllocator(where.type())->getDeviceStats(where.index()).reserved_bytes;
  return static_cast<std::size_t>(reserved[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak);
}

void reset_most_torch_memory(const Device& device) {
  if (device.kind() == DeviceKind::cpu) return reset_most_host_memory();
  const c10::Device where = tensor_device(device);
  at::getDeviceAllocator(where.type())->resetPeakStats(where.index());
}

void release_torch_memory(const Device& device) {
  if (device.kind() != DeviceKind::cpu) at::getDeviceAllocator(c10::kCUDA)->emptyCache();
}

}  // namespace espalier::torchrt
