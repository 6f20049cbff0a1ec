// How fast a device computes and copies its memory.
#pragma once

#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

struct DeviceSpeed {
  double tflops = 0;       // of a large matrix product: bfloat16 on a GPU, float32 on a processor
  double memory_gb_s = 0;  // bytes read and written by a copy, of 1e9
};

// Takes about a second. Call prepare_torch() before. Throws Error.
DeviceSpeed measure_speed(Device& device);

}  // namespace espalier::torchrt
