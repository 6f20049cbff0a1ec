#include "torchrt/device/cuda_driver.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>

#include "torchrt/device/device_error.hpp"
#include "torchrt/device/memory_error.hpp"

namespace espalier::torchrt {

namespace {

// `version`: the CUDA version that introduced the form of the function used here.
template <class Function>
void find(const char* name, unsigned version, Function& function) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t result = ::cudaGetDriverEntryPointByVersion(name, &entry, version, cudaEnableDefault, &found);
  if (result != cudaSuccess || found != cudaDriverEntryPointSuccess || entry == nullptr)
    throw Error(std::string("CUDA: the driver has no ") + name +
                "; install a driver for CUDA 10.2 or later, or use espalier-train");
  function = reinterpret_cast<Function>(entry);
}

CudaDriver load() {
  CudaDriver driver{};
  find("cuMemGetAllocationGranularity", 10020, driver.granularity);
  find("cuMemCreate", 10020, driver.create);
  find("cuMemRelease", 10020, driver.release);
  find("cuMemAddressReserve", 10020, driver.reserve);
  find("cuMemAddressFree", 10020, driver.free_address);
  find("cuMemMap", 10020, driver.map);
  find("cuMemUnmap", 10020, driver.unmap);
  find("cuMemSetAccess", 10020, driver.set_access);
  find("cuMemExportToShareableHandle", 10020, driver.export_handle);
  find("cuMemImportFromShareableHandle", 10020, driver.import_handle);
  find("cuDeviceGetAttribute", 2000, driver.attribute);
  find("cuGetErrorString", 6000, driver.error_string);
  return driver;
}

[[noreturn]] void refuse(int code, const char* what, const char* why) {
  const std::string words = std::string("CUDA: ") + what + " failed: " + why;
  if (loses_device(code)) throw DeviceError(words);
  if (code == cudaErrorMemoryAllocation) throw MemoryError(words);
  throw Error(words);
}

}  // namespace

const CudaDriver& cuda_driver() {
  static const CudaDriver driver = load();
  return driver;
}

void must(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  cuda_driver().error_string(result, &text);
  refuse(result, what, text ? text : "unknown error");
}

void must_run(int cuda_runtime_error, const char* what) {
  const auto error = static_cast<cudaError_t>(cuda_runtime_error);
  if (error == cudaSuccess) return;
  // Clears it. Some callers go on without what failed, and whoever asks next whether a kernel has started, as torch
  // does, would take this error for that kernel's.
  ::cudaGetLastError();
  refuse(cuda_runtime_error, what, ::cudaGetErrorString(error));
}

bool gpu_nearly_full() {
  constexpr std::size_t kLittle = 256u << 20;
  std::size_t left = 0, whole = 0;
  if (::cudaMemGetInfo(&left, &whole) != cudaSuccess) {
    ::cudaGetLastError();
    return false;
  }
  return left < std::min(kLittle, whole / 50);
}

}  // namespace espalier::torchrt
