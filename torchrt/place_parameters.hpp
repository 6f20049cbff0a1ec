// Puts parameters from host memory into a unit's state on the device.
#pragma once

#include <span>

#include "torchrt/device/device.hpp"
#include "torchrt/model/state_layout.hpp"

namespace espalier::torchrt {

// `parameters`: UnitSpec::floats elements. Writes the parameters in the model's type. Also writes
// the master weights of the state's part, if the state has them. Does not write the moments.
void place_parameters(std::span<const float> parameters, const StateLayout& state, Device& device, void* memory);

}  // namespace espalier::torchrt
