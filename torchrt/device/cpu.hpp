// Host memory as a device: one memfd per allocation.
#pragma once

#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

std::unique_ptr<Device> make_cpu_device();

}  // namespace espalier::torchrt
