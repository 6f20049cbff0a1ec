// One unit's whole state between two ranks of one world.
#pragma once

#include "torchrt/comm/world.hpp"
#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

// Both throw Error; they match in order for the same pair of ranks and unit.
void send_state(World& world, Device& device, const Allocation& from, int peer, int unit);
void receive_state(World& world, Device& device, Allocation& into, int peer, int unit);

}  // namespace espalier::torchrt
