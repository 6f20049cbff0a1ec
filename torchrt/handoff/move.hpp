// One piece of state between two ranks of one world.
#pragma once

#include "torchrt/comm/world.hpp"
#include "torchrt/device/device.hpp"
#include "torchrt/handoff/piece.hpp"

namespace espalier::torchrt {

// Both throw Error; they match in order for the same pair of ranks and piece.
void send_state(World& world, Device& device, const Allocation& from, int peer, const Piece& piece);
void receive_state(World& world, Device& device, Allocation& into, int peer, const Piece& piece);

}  // namespace espalier::torchrt
