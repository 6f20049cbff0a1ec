#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <string>

#include "torchrt/device/device_error.hpp"
#include "torchrt/device/memory_error.hpp"
#include "torchrt/model/fixed_point_device.hpp"
#include "torchrt/model/flavour/fixed_point_kernels.hpp"
#include "torchrt/model/host_memory.hpp"
#include "torchrt/model/tensor_device.hpp"

namespace espalier::torchrt {
namespace {

constexpr int kMemoryFull = 2;  // cudaErrorMemoryAllocation

// The stream on which torch's operators on this tensor run, which all others on it wait for.
void* stream_of(const at::Tensor& tensor) {
  return c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(tensor.device()).native_handle();
}

void check(int code, const char* what) {
  if (code == 0) return;
  const std::string words = std::string("CUDA: ") + what + ": error " + std::to_string(code);
  if (loses_device(code)) throw DeviceError(words);
  if (code == kMemoryFull) throw MemoryError(words);
  throw Error(words);
}

}  // namespace

void add_fixed_point_on_device(const at::Tensor& total, const at::Tensor& values, bool fresh, float most,
                               const at::Tensor& out_of_range) {
  const c10::DeviceGuard here(values.device());
  const auto parts = static_cast<int>(values.numel() / std::max<std::int64_t>(1, total.numel()));
  check(launch_add_fixed_point(total.mutable_data_ptr<std::int64_t>(), values.const_data_ptr<float>(), total.numel(),
                               parts, fresh, most, out_of_range.mutable_data_ptr<bool>(), stream_of(values)),
        "the sum of gradients as integers");
}

void from_fixed_point_on_device(const at::Tensor& values, const at::Tensor& total) {
  const c10::DeviceGuard here(values.device());
  check(launch_from_fixed_point(values.mutable_data_ptr<float>(), total.const_data_ptr<std::int64_t>(), values.numel(),
                                stream_of(values)),
        "gradients from their sum as integers");
}

namespace {

c10::CachingDeviceAllocator::DeviceStats stats_of(const Device& device) {
  const c10::Device where = tensor_device(device);
  return at::getDeviceAllocator(where.type())->getDeviceStats(where.index());
}

std::size_t peak_of(const c10::CachingAllocator::StatArray& bytes) {
  return static_cast<std::size_t>(bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak);
}

}  // namespace

c10::Device tensor_device(const Device& device) {
  if (device.kind() == DeviceKind::cpu) return c10::kCPU;
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(device.index())};
}

std::size_t most_torch_memory(const Device& device) {
  if (device.kind() == DeviceKind::cpu) return most_host_memory();
  return peak_of(stats_of(device).reserved_bytes);
}

std::size_t most_tensor_memory(const Device& device) {
  if (device.kind() == DeviceKind::cpu) return most_host_memory();
  return peak_of(stats_of(device).allocated_bytes);
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
