// Torch's errors as this program's. Includes torch.
#pragma once

#include <c10/util/Exception.h>

#include <string>

#include "planner/core/error.hpp"
#include "torchrt/device/device.hpp"
#include "torchrt/device/device_error.hpp"
#include "torchrt/device/memory_error.hpp"

namespace espalier::torchrt {

inline constexpr int kNoMemory = 2;  // cudaErrorMemoryAllocation

inline bool says_no_memory(const std::string& words) {
  for (const char* sign : {"DefaultCPUAllocator: ", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED"})
    if (words.find(sign) != std::string::npos) return true;
  return false;
}

// Calls `function`, which computes on `device`. Torch's errors become Error, or DeviceError or MemoryError where
// callers need it. `what` is in the message.
template <class Function>
auto guarded(const Device& device, const char* what, Function&& function) {
  try {
    return function();
  } catch (const c10::Error& error) {
    const std::string words = std::string("model: ") + what + " failed: " + error.what_without_backtrace();
    const auto* const accelerator = dynamic_cast<const c10::AcceleratorError*>(&error);
    if (accelerator != nullptr && loses_device(accelerator->get_error_code())) throw DeviceError(words);
    // The CPU's allocator, cuBLAS and cuDNN throw no error of their own type.
    const bool no_memory = dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
                           (accelerator != nullptr && accelerator->get_error_code() == kNoMemory) ||
                           says_no_memory(words);
    if (no_memory) throw MemoryError(words);
    // Of a broken GPU cuBLAS and cuDNN say only that a call failed.
    try {
      device.check();
    } catch (const DeviceError& own) {
      throw DeviceError(words + "; " + own.what());
    }
    // They say the same of a handle for which there was no memory.
    if (words.find("_STATUS_NOT_INITIALIZED") != std::string::npos && device.nearly_full()) throw MemoryError(words);
    throw Error(words);
  }
}

}  // namespace espalier::torchrt
