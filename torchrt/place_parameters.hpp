// Parameters, as numbers in host memory, into a unit's state on the device.
#pragma once

#include <span>

#include "torchrt/device/device.hpp"
#include "torchrt/model/state_layout.hpp"

namespace espalier::torchrt {

// `parameters`: UnitSpec::floats. Writes the parameters in their type and, where there are some, the master weights of
// the state's part; not the moments.
void place_parameters(std::span<const float> parameters, const StateLayout& state, Device& device, void* memory);

}  // namespace espalier::torchrt
