#include "torchrt/handoff/move.hpp"

#include <vector>

namespace espalier::torchrt {

namespace {

// Away from the tags of activations and gradients.
constexpr int kFirstTag = 1 << 22;

int tag(const Piece& piece) { return kFirstTag + 256 * piece.unit + piece.part % 256; }

}  // namespace

void send_state(World& world, Device& device, const Allocation& from, int peer, const Piece& piece) {
  if (device.kind() == DeviceKind::cpu) return world.send_bytes(from.data(), from.bytes(), peer, tag(piece));
  std::vector<char> staged(from.bytes());
  device.to_host(staged.data(), from.data(), staged.size());
  world.send_bytes(staged.data(), staged.size(), peer, tag(piece));
}

void receive_state(World& world, Device& device, Allocation& into, int peer, const Piece& piece) {
  if (device.kind() == DeviceKind::cpu) return world.receive_bytes(into.data(), into.bytes(), peer, tag(piece));
  std::vector<char> staged(into.bytes());
  world.receive_bytes(staged.data(), staged.size(), peer, tag(piece));
  device.from_host(into.data(), staged.data(), staged.size());
}

}  // namespace espalier::torchrt
