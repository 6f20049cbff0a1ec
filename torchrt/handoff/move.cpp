#include "torchrt/handoff/move.hpp"

#include <vector>

namespace espalier::torchrt {

namespace {

// Away from the tags of activations, which count micro-batches.
constexpr int kFirstTag = 1 << 22;

}  // namespace

void send_state(World& world, Device& device, const Allocation& from, int peer, int unit) {
  if (device.kind() == DeviceKind::cpu) return world.send_bytes(from.data(), from.bytes(), peer, kFirstTag + unit);
  std::vector<char> staged(from.bytes());
  device.to_host(staged.data(), from.data(), staged.size());
  world.send_bytes(staged.data(), staged.size(), peer, kFirstTag + unit);
}

void receive_state(World& world, Device& device, Allocation& into, int peer, int unit) {
  if (device.kind() == DeviceKind::cpu) return world.receive_bytes(into.data(), into.bytes(), peer, kFirstTag + unit);
  std::vector<char> staged(into.bytes());
  world.receive_bytes(staged.data(), staged.size(), peer, kFirstTag + unit);
  device.from_host(into.data(), staged.data(), staged.size());
}

}  // namespace espalier::torchrt
